#include "client/cli/command.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace lockstep::cli {

Command::Command(std::string name, std::string about, const Surroundings& surroundings)
    : name_(std::move(name)),
      about_(std::move(about)),
      surroundings_(surroundings),
      address_(surroundings.default_address) {
  flags_.Add("address", absl::StrCat("host:port of the server; default ", address_), &address_);
  flags_.Add("json", "print JSON, a message of lockstep.v1 a line; default false", &json_);
}

int Command::Parse(const Arguments& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
    surroundings_.out << "lockstep " << name_ << ": " << about_ << "\n\n" << flags_.Help();
    return kExitOk;
  }
  const absl::Status status = flags_.Parse(arguments);
  return status.ok() ? -1 : Fail(kExitUsage, status);
}

std::unique_ptr<Client> Command::Connect() {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address_);
  if (client.ok()) return *std::move(client);
  FailRpc(client.status());
  return nullptr;
}

int Command::Fail(ExitCode code, const absl::Status& status) const {
  surroundings_.err << "lockstep " << name_ << ": ";
  if (code == kExitRpc) surroundings_.err << absl::StatusCodeToString(status.code()) << ": ";
  surroundings_.err << status.message() << "\n";
  return code;
}

std::string ToJsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Only fails for messages that JSON cannot hold, which those of lockstep.v1 are not.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

std::string ToHex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

}  // namespace lockstep::cli
