// The flags of one subcommand: strict, so that a typing error is an error. --name=value or
// --name value; a boolean may stand alone, and takes true, false, yes, no, on, off, 1, 0 in any
// case. Dashes and underscores in a name are the same. Nothing else is on a command line.
#ifndef LOCKSTEP_CLIENT_CLI_FLAGS_H_
#define LOCKSTEP_CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace lockstep::cli {

// Each sets *value and returns OK, or says what it expected and what came.
absl::Status ParseFlagValue(absl::string_view text, std::string* value);
absl::Status ParseFlagValue(absl::string_view text, bool* value);
absl::Status ParseFlagValue(absl::string_view text, int32_t* value);
absl::Status ParseFlagValue(absl::string_view text, uint64_t* value);
absl::Status ParseFlagValue(absl::string_view text, float* value);
// "1,2,3"; empty is refused.
absl::Status ParseFlagValue(absl::string_view text, std::vector<int32_t>* value);

template <typename T>
absl::Status ParseFlagValue(absl::string_view text, absl::optional<T>* value) {
  T parsed{};
  const absl::Status status = ParseFlagValue(text, &parsed);
  if (status.ok()) *value = parsed;
  return status;
}

// Lifetime: the variables that flags set must outlive Parse().
class FlagSet {
 public:
  // `name` with dashes; `help` is one line, which ends with the default where there is one.
  template <typename T>
  void Add(std::string name, std::string help, T* value) {
    AddFlag({.name = std::move(name),
             .help = std::move(help),
             .is_boolean = std::is_same_v<T, bool>,
             .required = false,
             .parse = [value](absl::string_view text) { return ParseFlagValue(text, value); }});
  }
  template <typename T>
  void AddRequired(std::string name, std::string help, T* value) {
    Add(std::move(name), std::move(help), value);
    flags_.back().required = true;
  }

  // INVALID_ARGUMENT naming the flag and the value.
  absl::Status Parse(const std::vector<std::string>& arguments) const;

  // One line a flag.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string help;
    bool is_boolean;
    bool required;
    std::function<absl::Status(absl::string_view)> parse;
  };

  void AddFlag(Flag flag) { flags_.push_back(std::move(flag)); }
  const Flag* Find(absl::string_view name) const;

  std::vector<Flag> flags_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLIENT_CLI_FLAGS_H_
