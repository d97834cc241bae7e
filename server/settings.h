// The server's settings from their four sources: defaults, a JSON file, the environment, flags;
// the later overrides the earlier. Strict: a name nobody knows is an error that guesses what was
// meant, and so is a value that does not read.
//
// Pure: arguments, environment and files are passed in.
#ifndef LOCKSTEP_SERVER_SETTINGS_H_
#define LOCKSTEP_SERVER_SETTINGS_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/lockstep/v1/config.pb.h"

namespace lockstep {

struct SettingsSources {
  // Flags without the program's name: --field=value, --field value, or --field alone for a boolean.
  // Dashes in a name may stand for underscores. --config=FILE (or LOCKSTEP_CONFIG) names the file.
  std::vector<std::string> arguments;
  // All of it; only names that begin with LOCKSTEP_ are looked at.
  std::vector<std::pair<std::string, std::string>> environment;
  std::function<absl::StatusOr<std::string>(const std::string& path)> read_file;
};

struct Settings {
  v1::ServerConfig config;
  // Every field: "default", "file", "environment" or "flag".
  std::map<std::string, std::string> sources;
};

v1::ServerConfig DefaultServerConfig();

// INVALID_ARGUMENT naming the flag, variable or file and the value. Checks that values read, not
// that they make sense: see CheckSettings.
absl::StatusOr<Settings> LoadSettings(const SettingsSources& sources);

// What can be seen without a model: ranges, the address, and that remote exposure was asked for.
absl::Status CheckSettings(const Settings& settings);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_SETTINGS_H_
