#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/command_line.h"
#include "server/config_fields.h"
// kServerConfigDescriptor: the bytes of a FileDescriptorSet of config.proto with its comments,
// which the generated C++ code leaves out.
#include "server/config_descriptor.inc"

namespace lockstep {
namespace {

// By field name.
std::map<std::string, std::string> FieldComments() {
  google::protobuf::FileDescriptorSet files;
  LOCKSTEP_CHECK(files.ParseFromArray(kServerConfigDescriptor, sizeof(kServerConfigDescriptor)));
  const google::protobuf::FileDescriptorProto& file = files.file(0);
  std::map<std::string, std::string> comments;
  for (const auto& location : file.source_code_info().location()) {
    // {message_type, 0, field, index}: see SourceCodeInfo.Location.path in descriptor.proto.
    if (location.path_size() != 4 || location.path(0) != 4 || location.path(2) != 2) continue;
    const auto& field = file.message_type(location.path(1)).field(location.path(3));
    comments[field.name()] = location.leading_comments();
  }
  return comments;
}

}  // namespace

std::string HelpText() {
  std::string text =
      "lockstep_server: hosts a language model and generates and trains with it, over gRPC.\n"
      "\n"
      "  lockstep_server --model=DIR [--setting=value ...]\n"
      "  lockstep_server init-model DIR [--seed=N]   writes a tiny, untrained byte-level model\n"
      "  lockstep_server --help | --version\n"
      "\n"
      "Settings are flags (--kv_page_size=16), environment variables (LOCKSTEP_KV_PAGE_SIZE=16) "
      "or\n"
      "fields of a JSON file ({\"kv_page_size\": 16}) named by --config=FILE or LOCKSTEP_CONFIG; a "
      "flag\n"
      "overrides the environment, which overrides the file. Unknown names are errors.\n"
      "\n"
      "Exit codes: 0 stopped by a signal, 2 bad settings, 3 the model or engine cannot start, 4 "
      "the\n"
      "address cannot be listened on, 5 did not stop in time.\n";
  const std::map<std::string, std::string> comments = FieldComments();
  for (const google::protobuf::FieldDescriptor* field : ConfigFields()) {
    absl::StrAppend(&text, "\n  --", field->name(), "  (", ConfigFieldKind(*field), ")\n");
    const auto comment = comments.find(field->name());
    if (comment == comments.end()) continue;
    const std::string trimmed(absl::StripTrailingAsciiWhitespace(comment->second));
    for (absl::string_view line : absl::StrSplit(trimmed, '\n')) {
      absl::StrAppend(&text, "     ", line, "\n");
    }
  }
  return text;
}

}  // namespace lockstep
