#include "server/settings.h"

#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "server/config_fields.h"
#include "server/nearest_name.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;

constexpr absl::string_view kEnvironmentPrefix = "LOCKSTEP_";

struct NamedValue {
  std::string name;
  std::string value;
};

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known,
                       absl::string_view prefix = "") {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", prefix, nearest, "?");
}

std::vector<std::string> FlagNames() {
  std::vector<std::string> names = {"config"};
  for (const FieldDescriptor* field : ConfigFields()) names.push_back(field->name());
  return names;
}

// The flags in order, their names with underscores; nothing is known of their values yet except
// that a boolean may come without one.
absl::StatusOr<std::vector<NamedValue>> SplitFlags(const std::vector<std::string>& arguments) {
  std::vector<NamedValue> flags;
  std::set<std::string> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::StartsWith(argument, "--") || argument == "--") {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", argument, "\": expected a flag, --name=value; see lockstep_server --help"));
    }
    argument.remove_prefix(2);
    const size_t equals = argument.find('=');
    const std::string name = absl::StrReplaceAll(argument.substr(0, equals), {{"-", "_"}});
    const FieldDescriptor* field = FindConfigField(name);
    if (field == nullptr && name != "config") {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, ": unknown flag", DidYouMean(name, FlagNames(), "--")));
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": given twice"));
    }
    const bool value_follows =
        i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--");
    if (equals != absl::string_view::npos) {
      flags.push_back({name, std::string(argument.substr(equals + 1))});
    } else if (value_follows) {
      flags.push_back({name, arguments[++i]});
    } else if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      flags.push_back({name, "true"});
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": needs a value"));
    }
  }
  return flags;
}

// Not ours to refuse: the address that the command line client reads, and what Kubernetes puts into
// every container when some service is called "lockstep" (LOCKSTEP_PORT, LOCKSTEP_SERVICE_HOST,
// LOCKSTEP_PORT_50551_TCP, ...).
bool IsForeignVariable(absl::string_view name) {
  return name == "LOCKSTEP_ADDRESS" || name == "LOCKSTEP_PORT" ||
         absl::StartsWith(name, "LOCKSTEP_PORT_") || absl::StartsWith(name, "LOCKSTEP_SERVICE_");
}

// The LOCKSTEP_ variables, with the names of their fields.
absl::StatusOr<std::vector<NamedValue>> SelectVariables(
    const std::vector<std::pair<std::string, std::string>>& environment) {
  std::map<std::string, std::string> known = {{"LOCKSTEP_CONFIG", "config"}};
  std::vector<std::string> known_names = {"LOCKSTEP_CONFIG"};
  for (const FieldDescriptor* field : ConfigFields()) {
    known[EnvironmentName(*field)] = field->name();
    known_names.push_back(EnvironmentName(*field));
  }
  std::vector<NamedValue> variables;
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, kEnvironmentPrefix)) continue;
    const auto found = known.find(name);
    if (found != known.end()) {
      variables.push_back({found->second, value});
    } else if (!IsForeignVariable(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment ", name, ": unknown setting", DidYouMean(name, known_names)));
    }
  }
  return variables;
}

std::optional<std::string> ValueOf(absl::string_view name, const std::vector<NamedValue>& values) {
  for (const NamedValue& named : values) {
    if (named.name == name) return named.value;
  }
  return std::nullopt;
}

// The text that a flag would have given for a JSON value; nothing for one that no flag can give.
std::optional<std::string> TextOf(const google::protobuf::Value& value,
                                  const FieldDescriptor& field) {
  const bool wants_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  switch (value.kind_case()) {
    case google::protobuf::Value::kStringValue:
      return value.string_value();
    case google::protobuf::Value::kBoolValue:
      if (wants_text) return std::nullopt;
      return value.bool_value() ? "true" : "false";
    case google::protobuf::Value::kNumberValue:
      if (wants_text) return std::nullopt;
      return absl::StrFormat("%.15g", value.number_value());
    default:
      return std::nullopt;
  }
}

absl::Status ApplyFile(const std::string& path, const std::string& json, Settings& settings) {
  const auto refuse = [&](const absl::AlphaNum& what) {
    return absl::InvalidArgumentError(absl::StrCat("config file ", path, ": ", what));
  };
  google::protobuf::Struct object;
  const auto read = google::protobuf::util::JsonStringToMessage(json, &object);
  if (!read.ok()) return refuse(absl::StrCat("must be a JSON object: ", read.ToString()));

  for (const auto& [key, value] : object.fields()) {
    const FieldDescriptor* field = FindConfigField(key);
    if (field == nullptr) field = v1::ServerConfig::descriptor()->FindFieldByCamelcaseName(key);
    if (field == nullptr) {
      return refuse(absl::StrCat("field \"", key, "\" is unknown", DidYouMean(key, FlagNames())));
    }
    const std::optional<std::string> text = TextOf(value, *field);
    if (!text.has_value()) {
      return refuse(absl::StrCat("field \"", key, "\": must be of kind ", ConfigFieldKind(*field)));
    }
    const absl::Status status = SetConfigField(*field, *text, settings.config);
    if (!status.ok()) return refuse(absl::StrCat("field \"", key, "\": ", status.message()));
    settings.sources[field->name()] = "file";
  }
  return absl::OkStatus();
}

// Sets each value but `config`; `spell` gives back the name as the user wrote it.
absl::Status ApplyValues(const std::vector<NamedValue>& values, const std::string& source,
                         const std::function<std::string(const FieldDescriptor&)>& spell,
                         Settings& settings) {
  for (const NamedValue& named : values) {
    const FieldDescriptor* field = FindConfigField(named.name);
    if (field == nullptr) continue;
    const absl::Status status = SetConfigField(*field, named.value, settings.config);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(spell(*field), ": ", status.message()));
    }
    settings.sources[field->name()] = source;
  }
  return absl::OkStatus();
}

}  // namespace

v1::ServerConfig DefaultServerConfig() {
  v1::ServerConfig config;
  config.set_listen("127.0.0.1:50551");
  config.set_message_size_max_mib(256);
  config.set_stages(1);
  config.set_instruction_set("auto");
  config.set_profile("fp32");
  config.set_queue_depth_max(1024);
  config.set_running_sequences_max(64);
  config.set_step_tokens_max(512);
  config.set_kv_page_size(16);
  config.set_micro_batch_size(8);
  config.set_data_max(4096);
  config.set_stored_answers_max(64);
  return config;
}

absl::StatusOr<Settings> LoadSettings(const SettingsSources& sources) {
  Settings settings{.config = DefaultServerConfig(), .sources = {}};
  for (const FieldDescriptor* field : ConfigFields()) settings.sources[field->name()] = "default";

  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<NamedValue> flags, SplitFlags(sources.arguments));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<NamedValue> variables,
                            SelectVariables(sources.environment));
  std::optional<std::string> path = ValueOf("config", flags);
  if (!path.has_value()) path = ValueOf("config", variables);
  if (path.has_value()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string json, sources.read_file(*path));
    LOCKSTEP_RETURN_IF_ERROR(ApplyFile(*path, json, settings));
  }
  LOCKSTEP_RETURN_IF_ERROR(ApplyValues(
      variables, "environment",
      [](const FieldDescriptor& field) { return "environment " + EnvironmentName(field); },
      settings));
  LOCKSTEP_RETURN_IF_ERROR(ApplyValues(
      flags, "flag", [](const FieldDescriptor& field) { return "--" + field.name(); }, settings));
  return settings;
}

}  // namespace lockstep
