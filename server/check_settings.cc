// CheckSettings(): what can be refused before a model is read. What depends on the model is checked
// by Engine::Create.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "server/config_fields.h"
#include "server/listen_address.h"
#include "server/settings.h"

namespace lockstep {
namespace {

struct Range {
  const char* field;
  int32_t low;
  int32_t high;
};

// Upper ends keep products of two settings within 63 bits and catch slips of the keyboard; they are
// no advice.
constexpr Range kRanges[] = {
    {"message_size_max_mib", 1, 2047},  // gRPC's sizes are int
    {"stages", 1, 1024},
    {"threads", 0, 4096},
    {"queue_depth_max", 1, 1 << 20},
    {"running_sequences_max", 1, 1 << 16},
    {"step_tokens_max", 1, 1 << 20},
    {"kv_page_count", 0, 1 << 30},
    {"prefill_chunk_max", 0, 1 << 20},
    {"micro_batch_size", 1, 1 << 16},
    {"data_max", 1, 1 << 20},
    {"stored_answers_max", 1, 1 << 20},
};

// Divisors of attention's block of 128 positions.
constexpr std::array<int32_t, 5> kKvPageSizes = {8, 16, 32, 64, 128};
constexpr std::array<absl::string_view, 6> kInstructionSets = {"auto", "avx512_bf16", "avx512",
                                                               "avx2", "scalar",      "reference"};
constexpr std::array<absl::string_view, 2> kProfiles = {"fp32", "bf16"};

absl::Status Refuse(const Settings& settings, const std::string& field, absl::string_view what) {
  const auto source = settings.sources.find(field);
  const std::string from = source == settings.sources.end() ? "default" : source->second;
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what, " (from ", from, ")"));
}

absl::Status CheckRanges(const Settings& settings) {
  for (const Range& range : kRanges) {
    const google::protobuf::FieldDescriptor* field = FindConfigField(range.field);
    const int32_t value = settings.config.GetReflection()->GetInt32(settings.config, field);
    if (value >= range.low && value <= range.high) continue;
    return Refuse(settings, range.field,
                  absl::StrCat("must be in [", range.low, ", ", range.high, "], is ", value));
  }
  return absl::OkStatus();
}

template <typename Choices, typename Value>
absl::Status CheckChoice(const Settings& settings, const std::string& field, const Choices& choices,
                         const Value& value) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  return Refuse(settings, field,
                absl::StrCat("must be one of ", absl::StrJoin(choices, ", "), ", is ", value));
}

absl::Status CheckListen(const Settings& settings) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(settings.config.listen());
  if (!address.ok()) return Refuse(settings, "listen", address.status().message());
  if (address->is_loopback() || settings.config.insecure_remote()) return absl::OkStatus();
  return Refuse(settings, "listen",
                absl::StrCat(settings.config.listen(),
                             " is reachable from other machines, without encryption or passwords; "
                             "--insecure_remote allows it"));
}

}  // namespace

absl::Status CheckSettings(const Settings& settings) {
  if (settings.config.model().empty()) {
    return absl::InvalidArgumentError(
        "model: required, the directory of a Hugging Face model: --model=DIR");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRanges(settings));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckChoice(settings, "kv_page_size", kKvPageSizes, settings.config.kv_page_size()));
  LOCKSTEP_RETURN_IF_ERROR(CheckChoice(settings, "instruction_set", kInstructionSets,
                                       settings.config.instruction_set()));
  LOCKSTEP_RETURN_IF_ERROR(CheckChoice(settings, "profile", kProfiles, settings.config.profile()));
  return CheckListen(settings);
}

}  // namespace lockstep
