#include "server/command_line.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr absl::string_view kInitUsage = "usage: lockstep_server init-model DIR [--seed=N]";

absl::StatusOr<CommandLine> ParseInitModel(const std::vector<std::string>& arguments) {
  CommandLine line{.command = CommandLine::Command::kInitModel};
  std::optional<std::string> seed;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument == "--seed" && i + 1 < arguments.size()) {
      seed = arguments[++i];
    } else if (absl::StartsWith(argument, "--seed=")) {
      seed = arguments[i].substr(std::string("--seed=").size());
    } else if (absl::StartsWith(argument, "-")) {
      return absl::InvalidArgumentError(absl::StrCat(argument, ": unknown flag; ", kInitUsage));
    } else if (line.init_directory.empty()) {
      line.init_directory = arguments[i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", argument, "\": one directory is enough; ", kInitUsage));
    }
  }
  if (line.init_directory.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no directory given; ", kInitUsage));
  }
  if (seed.has_value() && !absl::SimpleAtoi(*seed, &line.init_seed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seed: must be an integer >= 0, is \"", *seed, "\""));
  }
  return line;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  const auto has = [&](absl::string_view flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
  if (has("--help") || has("-h")) return CommandLine{.command = CommandLine::Command::kHelp};
  if (has("--version")) return CommandLine{.command = CommandLine::Command::kVersion};
  if (!arguments.empty() && arguments[0] == "init-model") return ParseInitModel(arguments);
  return CommandLine{.flags = arguments};
}

}  // namespace lockstep
