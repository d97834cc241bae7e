// What the subcommands share. Each is one function in a file of its own.
#ifndef LOCKSTEP_CLIENT_CLI_COMMAND_H_
#define LOCKSTEP_CLIENT_CLI_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/cli.h"
#include "client/cli/flags.h"
#include "client/cpp/client.h"
#include "google/protobuf/message.h"

namespace lockstep::cli {

using Arguments = std::vector<std::string>;

int RunInfo(const Arguments& arguments, const Surroundings& surroundings);
int RunGenerate(const Arguments& arguments, const Surroundings& surroundings);
int RunScore(const Arguments& arguments, const Surroundings& surroundings);
int RunTrain(const Arguments& arguments, const Surroundings& surroundings);
int RunParity(const Arguments& arguments, const Surroundings& surroundings);
int RunExport(const Arguments& arguments, const Surroundings& surroundings);

// A subcommand as it begins: its flags, --address, --json and --help among them, and its client.
class Command {
 public:
  // `about`: what the subcommand does, for --help.
  Command(std::string name, std::string about, const Surroundings& surroundings);

  FlagSet& flags() { return flags_; }
  bool json() const { return json_; }
  const std::string& address() const { return address_; }

  // Reads the flags. Anything but -1 is what the subcommand exits with: help was shown, or an
  // error.
  int Parse(const Arguments& arguments);
  // Null: no server; the exit code is kExitRpc, and the reason is shown.
  std::unique_ptr<Client> Connect();

  // Shows an error and returns `code`.
  int Fail(ExitCode code, const absl::Status& status) const;
  // The server's error.
  int FailRpc(const absl::Status& status) const { return Fail(kExitRpc, status); }

 private:
  const std::string name_;
  const std::string about_;
  const Surroundings& surroundings_;
  FlagSet flags_;
  std::string address_;
  bool json_ = false;
};

// One line of JSON with the names of the .proto files.
std::string ToJsonLine(const google::protobuf::Message& message);

// 64 hexadecimal digits of a state_id's 32 bytes.
std::string ToHex(absl::string_view bytes);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLIENT_CLI_COMMAND_H_
