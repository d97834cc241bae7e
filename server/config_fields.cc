#include "server/config_fields.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace lockstep {

using google::protobuf::FieldDescriptor;

std::vector<const FieldDescriptor*> ConfigFields() {
  const google::protobuf::Descriptor* message = v1::ServerConfig::descriptor();
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message->field_count(); ++i) fields.push_back(message->field(i));
  return fields;
}

const FieldDescriptor* FindConfigField(absl::string_view name) {
  return v1::ServerConfig::descriptor()->FindFieldByName(std::string(name));
}

std::string EnvironmentName(const FieldDescriptor& field) {
  return absl::StrCat("LOCKSTEP_", absl::AsciiStrToUpper(field.name()));
}

std::string ConfigFieldKind(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "boolean";
    case FieldDescriptor::CPPTYPE_INT32:
      return "integer";
    default:
      return "text";
  }
}

absl::StatusOr<bool> ParseBoolean(absl::string_view text) {
  for (absl::string_view yes : {"true", "yes", "on", "1"}) {
    if (absl::EqualsIgnoreCase(text, yes)) return true;
  }
  for (absl::string_view no : {"false", "no", "off", "0"}) {
    if (absl::EqualsIgnoreCase(text, no)) return false;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be true, false, yes, no, on, off, 1 or 0, is \"", text, "\""));
}

absl::Status SetConfigField(const FieldDescriptor& field, absl::string_view text,
                            v1::ServerConfig& config) {
  const google::protobuf::Reflection* reflection = config.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      const absl::StatusOr<bool> value = ParseBoolean(text);
      if (!value.ok()) return value.status();
      reflection->SetBool(&config, &field, *value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      if (!absl::SimpleAtoi(text, &value)) {
        return absl::InvalidArgumentError(absl::StrCat("must be an integer, is \"", text, "\""));
      }
      reflection->SetInt32(&config, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      reflection->SetString(&config, &field, std::string(text));
      return absl::OkStatus();
    default:
      LOCKSTEP_CHECK(false) << "no textual form for the type of ServerConfig." << field.name();
      return absl::OkStatus();
  }
}

std::string ConfigFieldText(const FieldDescriptor& field, const v1::ServerConfig& config) {
  const google::protobuf::Reflection* reflection = config.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(config, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection->GetInt32(config, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(config, &field);
    default:
      LOCKSTEP_CHECK(false) << "no textual form for the type of ServerConfig." << field.name();
      return "";
  }
}

}  // namespace lockstep
