#include "core/model/json_fields.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {

using nlohmann::json;

absl::StatusOr<JsonFields> JsonFields::Of(const json& object, std::string source) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": not a JSON object"));
  }
  return JsonFields(object, std::move(source));
}

const json* JsonFields::Find(const std::string& name) const {
  const auto it = object_->find(name);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

absl::StatusOr<int64_t> JsonFields::Integer(const std::string& name, int64_t lowest,
                                            int64_t highest,
                                            std::optional<int64_t> fallback) const {
  const json* value = Find(name);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return Invalid(name, "is missing");
  }
  // Unsigned values above int64 would wrap around in get<int64_t>.
  if (!value->is_number_integer() ||
      (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX})) {
    return Invalid(name, "is not an integer");
  }
  const int64_t number = value->get<int64_t>();
  if (number < lowest || number > highest) {
    return Invalid(name, absl::StrCat("is outside [", lowest, ", ", highest, "]"));
  }
  return number;
}

absl::StatusOr<double> JsonFields::Real(const std::string& name, double lowest, double highest,
                                        std::optional<double> fallback) const {
  const json* value = Find(name);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return Invalid(name, "is missing");
  }
  if (!value->is_number()) return Invalid(name, "is not a number");
  const double number = value->get<double>();
  if (!(number >= lowest && number <= highest)) {
    return Invalid(name, absl::StrCat("is outside [", lowest, ", ", highest, "]"));
  }
  return number;
}

absl::StatusOr<bool> JsonFields::Boolean(const std::string& name, bool fallback) const {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return Invalid(name, "is not true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonFields::String(const std::string& name,
                                               std::optional<std::string> fallback) const {
  const json* value = Find(name);
  if (value == nullptr) {
    if (fallback.has_value()) return *fallback;
    return Invalid(name, "is missing");
  }
  if (!value->is_string()) return Invalid(name, "is not a string");
  return value->get<std::string>();
}

absl::StatusOr<std::vector<int64_t>> JsonFields::Integers(const std::string& name, int64_t lowest,
                                                          int64_t highest) const {
  std::vector<int64_t> numbers;
  const json* value = Find(name);
  if (value == nullptr) return numbers;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& element : list) {
    if (!element.is_number_integer()) return Invalid(name, "is not an integer or a list of them");
    const int64_t number = element.get<int64_t>();
    if (number < lowest || number > highest) {
      return Invalid(name, absl::StrCat("is outside [", lowest, ", ", highest, "]"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status JsonFields::Invalid(const std::string& name, const std::string& complaint) const {
  return absl::InvalidArgumentError(Describe(name, complaint));
}

absl::Status JsonFields::Lacking(const std::string& name, const std::string& complaint) const {
  return absl::UnimplementedError(Describe(name, complaint));
}

std::string JsonFields::Describe(const std::string& name, const std::string& complaint) const {
  constexpr size_t kShownMax = 120;
  const json* value = Find(name);
  std::string shown =
      value == nullptr ? "" : value->dump(-1, ' ', true, json::error_handler_t::replace);
  if (shown.size() > kShownMax) shown = shown.substr(0, kShownMax) + "...";
  return absl::StrCat(source_, ": ", name, ": ", shown, shown.empty() ? "" : " ", complaint);
}

}  // namespace lockstep
