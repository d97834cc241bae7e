#ifndef LOCKSTEP_CORE_MODEL_JSON_FIELDS_H_
#define LOCKSTEP_CORE_MODEL_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace lockstep {

// A JSON object from outside, read field by field with its type and range checked. A field that is
// null counts as absent. Errors are INVALID_ARGUMENT and name source, field and value.
//
// Borrows the object. Not synchronised.
class JsonFields {
 public:
  // INVALID_ARGUMENT: not an object. `source` names it in errors: "config.json".
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& object, std::string source);

  bool Has(const std::string& name) const { return Find(name) != nullptr; }
  // Whether the name is there, be it null.
  bool Names(const std::string& name) const { return object_->contains(name); }
  // Null when absent.
  const nlohmann::json* Find(const std::string& name) const;

  // A field in [lowest, highest]. When absent: `fallback`, or an error where there is none.
  absl::StatusOr<int64_t> Integer(const std::string& name, int64_t lowest, int64_t highest,
                                  std::optional<int64_t> fallback = std::nullopt) const;
  absl::StatusOr<double> Real(const std::string& name, double lowest, double highest,
                              std::optional<double> fallback = std::nullopt) const;
  absl::StatusOr<bool> Boolean(const std::string& name, bool fallback) const;
  absl::StatusOr<std::string> String(const std::string& name,
                                     std::optional<std::string> fallback = std::nullopt) const;
  // One integer or a list of them; empty when absent.
  absl::StatusOr<std::vector<int64_t>> Integers(const std::string& name, int64_t lowest,
                                                int64_t highest) const;

  // "config.json: hidden_size: -3 <complaint>".
  absl::Status Invalid(const std::string& name, const std::string& complaint) const;
  // The same as UNIMPLEMENTED: it makes sense, but not to this build.
  absl::Status Lacking(const std::string& name, const std::string& complaint) const;

 private:
  JsonFields(const nlohmann::json& object, std::string source)
      : object_(&object), source_(std::move(source)) {}
  std::string Describe(const std::string& name, const std::string& complaint) const;

  const nlohmann::json* object_;
  std::string source_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_JSON_FIELDS_H_
