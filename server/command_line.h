// What lockstep_server is asked to do, and its help text.
//
// Pure: reads nothing but its arguments.
#ifndef LOCKSTEP_SERVER_COMMAND_LINE_H_
#define LOCKSTEP_SERVER_COMMAND_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

struct CommandLine {
  enum class Command { kServe, kInitModel, kHelp, kVersion };
  Command command = Command::kServe;
  // kServe: flags for LoadSettings.
  std::vector<std::string> flags = {};
  // kInitModel: where the new model goes and the seed of its weights.
  std::string init_directory = {};
  uint64_t init_seed = 0;
};

// `arguments`: without the program's name. INVALID_ARGUMENT for what cannot be meant.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// One paragraph per setting, from the comments of proto/lockstep/v1/config.proto.
std::string HelpText();

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_COMMAND_LINE_H_
