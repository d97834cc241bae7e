// lockstep info.
#include <ostream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"

namespace lockstep::cli {
namespace {

void PrintModel(const v1::ModelInfo& model, std::ostream& out) {
  out << absl::StrFormat("model          %s, %d parameters, vocabulary %d, context %d\n",
                         model.architecture(), model.parameter_count(), model.vocab_size(),
                         model.context_length_max());
  out << absl::StrFormat(
      "shape          %d layers, hidden %d, %d heads of %d (%d KV), MLP %d, %s embeddings\n",
      model.layer_count(), model.hidden_size(), model.head_count(), model.head_dim(),
      model.kv_head_count(), model.intermediate_size(),
      model.tie_word_embeddings() ? "tied" : "untied");
  out << "end tokens     " << absl::StrJoin(model.eos_token_ids(), ", ") << "\n";
}

// Every setting by reflection: the message is the list.
void PrintSettings(const v1::GetServerInfoResponse& info, std::ostream& out) {
  const google::protobuf::Descriptor* descriptor = v1::ServerConfig::descriptor();
  const google::protobuf::Reflection* reflection = info.config().GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    std::string value;
    switch (field->cpp_type()) {
      case google::protobuf::FieldDescriptor::CPPTYPE_BOOL:
        value = reflection->GetBool(info.config(), field) ? "true" : "false";
        break;
      case google::protobuf::FieldDescriptor::CPPTYPE_INT32:
        value = absl::StrFormat("%d", reflection->GetInt32(info.config(), field));
        break;
      default:
        value = reflection->GetString(info.config(), field);
    }
    const auto source = info.config_sources().find(field->name());
    out << absl::StrFormat("  %-22s %-24s %s\n", field->name(), value,
                           source == info.config_sources().end() ? "" : source->second);
  }
}

}  // namespace

int RunInfo(const Arguments& arguments, const Surroundings& surroundings) {
  Command command("info", "what the server hosts, its state, load and settings.", surroundings);
  if (const int code = command.Parse(arguments); code >= 0) return code;
  const std::unique_ptr<Client> client = command.Connect();
  if (client == nullptr) return kExitRpc;
  const absl::StatusOr<v1::GetServerInfoResponse> info = client->Info();
  if (!info.ok()) return command.FailRpc(info.status());

  std::ostream& out = surroundings.out;
  if (command.json()) {
    out << ToJsonLine(*info) << "\n";
    return kExitOk;
  }
  out << "server         " << info->server_version() << " at " << command.address() << "\n";
  PrintModel(info->model(), out);
  out << "numerics       " << info->weights().numerics_id() << " on " << info->instruction_set();
  if (!info->instruction_set_note().empty()) out << " (" << info->instruction_set_note() << ")";
  out << "\nweight version " << info->weights().weight_version() << "\n";
  out << "state id       " << ToHex(info->weights().state_id()) << "\n";
  out << "weights digest " << info->weights_digest() << "\n";
  out << "moments digest " << info->moments_digest() << "\n";
  out << absl::StrFormat(
      "load           %d running, %d queued, %d of %d KV pages, %d pinned weight versions\n",
      info->running_sequences(), info->queued_requests(), info->kv_pages_in_use(),
      info->kv_pages_total(), info->pinned_weight_versions());
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); };
  const v1::MemoryPlan& memory = info->memory();
  out << absl::StrFormat(
      "memory         %.2f GiB reserved at start: optimizer state %.2f, weights %.2f, KV pages "
      "%.2f\n",
      gib(memory.at_start()), gib(memory.masters() + memory.moments() + memory.gradients()),
      gib(memory.weights()), gib(memory.kv_pages()));
  out << "settings\n";
  PrintSettings(*info, out);
  return kExitOk;
}

}  // namespace lockstep::cli
