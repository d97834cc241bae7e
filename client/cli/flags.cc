#include "client/cli/flags.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace lockstep::cli {
namespace {

absl::Status Expected(absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("must be ", what, ", is \"", text, "\""));
}

}  // namespace

absl::Status ParseFlagValue(absl::string_view text, std::string* value) {
  *value = std::string(text);
  return absl::OkStatus();
}

absl::Status ParseFlagValue(absl::string_view text, bool* value) {
  for (absl::string_view yes : {"true", "yes", "on", "1"}) {
    if (!absl::EqualsIgnoreCase(text, yes)) continue;
    *value = true;
    return absl::OkStatus();
  }
  for (absl::string_view no : {"false", "no", "off", "0"}) {
    if (!absl::EqualsIgnoreCase(text, no)) continue;
    *value = false;
    return absl::OkStatus();
  }
  return Expected("true, false, yes, no, on, off, 1 or 0", text);
}

absl::Status ParseFlagValue(absl::string_view text, int32_t* value) {
  return absl::SimpleAtoi(text, value) ? absl::OkStatus() : Expected("an integer", text);
}

absl::Status ParseFlagValue(absl::string_view text, uint64_t* value) {
  return absl::SimpleAtoi(text, value) ? absl::OkStatus() : Expected("an integer >= 0", text);
}

absl::Status ParseFlagValue(absl::string_view text, float* value) {
  return absl::SimpleAtof(text, value) ? absl::OkStatus() : Expected("a number", text);
}

absl::Status ParseFlagValue(absl::string_view text, std::vector<int32_t>* value) {
  std::vector<int32_t> numbers;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int32_t number = 0;
    if (!absl::SimpleAtoi(part, &number)) return Expected("integers with commas between", text);
    numbers.push_back(number);
  }
  *value = std::move(numbers);
  return absl::OkStatus();
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&](const Flag& flag) { return flag.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

absl::Status FlagSet::Parse(const std::vector<std::string>& arguments) const {
  std::set<std::string> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::StartsWith(argument, "--") || argument == "--") {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", argument, "\": expected a flag, --name=value"));
    }
    argument.remove_prefix(2);
    const size_t equals = argument.find('=');
    const std::string name = absl::StrReplaceAll(argument.substr(0, equals), {{"_", "-"}});
    const Flag* flag = Find(name);
    if (flag == nullptr) return absl::InvalidArgumentError(absl::StrCat("--", name, ": unknown"));
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": given twice"));
    }
    const bool value_follows =
        i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--");
    std::string text = "true";  // a boolean that stands alone
    if (equals != absl::string_view::npos) {
      text = std::string(argument.substr(equals + 1));
    } else if (value_follows) {
      text = arguments[++i];
    } else if (!flag->is_boolean) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": needs a value"));
    }
    const absl::Status status = flag->parse(text);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": ", status.message()));
    }
  }
  for (const Flag& flag : flags_) {
    if (!flag.required || seen.count(flag.name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, ": required"));
  }
  return absl::OkStatus();
}

std::string FlagSet::Help() const {
  std::string help;
  for (const Flag& flag : flags_)
    absl::StrAppendFormat(&help, "  --%-20s %s\n", flag.name, flag.help);
  return help;
}

}  // namespace lockstep::cli
