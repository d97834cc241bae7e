// The command line `lockstep`, without the process around it.
#ifndef LOCKSTEP_CLIENT_CLI_CLI_H_
#define LOCKSTEP_CLIENT_CLI_CLI_H_

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::cli {

// What a main function takes from its process.
struct Surroundings {
  std::ostream& out;
  std::ostream& err;
  // `err` is a terminal: progress is a bar that redraws itself.
  bool err_is_terminal = false;
  // Where the server is when no --address says so: LOCKSTEP_ADDRESS, or the default.
  std::string default_address = "127.0.0.1:50551";
};

enum ExitCode : int {
  kExitOk = 0,
  kExitMismatch = 1,  // log-probs differ
  kExitUsage = 2,     // flags or files of the caller's
  kExitRpc = 3,       // the server cannot be reached, or refused
};

// `arguments`: without the program's name. Returns an ExitCode.
int Run(const std::vector<std::string>& arguments, const Surroundings& surroundings);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLIENT_CLI_CLI_H_
