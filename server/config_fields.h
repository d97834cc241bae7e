// The fields of lockstep.v1.ServerConfig by name, through protobuf reflection, so that flags,
// environment, help and checks follow the message without a second list.
//
// Stateless; safe from any thread.
#ifndef LOCKSTEP_SERVER_CONFIG_FIELDS_H_
#define LOCKSTEP_SERVER_CONFIG_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/lockstep/v1/config.pb.h"

namespace lockstep {

// In order of their field numbers.
std::vector<const google::protobuf::FieldDescriptor*> ConfigFields();
// Null when there is none of that name.
const google::protobuf::FieldDescriptor* FindConfigField(absl::string_view name);

// "LOCKSTEP_KV_PAGE_SIZE" of kv_page_size.
std::string EnvironmentName(const google::protobuf::FieldDescriptor& field);
// "integer", "boolean" or "text".
std::string ConfigFieldKind(const google::protobuf::FieldDescriptor& field);

// true, yes, on, 1 and false, no, off, 0, in any case; anything else is INVALID_ARGUMENT.
absl::StatusOr<bool> ParseBoolean(absl::string_view text);

// Sets a field from its textual form. INVALID_ARGUMENT says what was expected and what came, but
// not where: the caller knows.
absl::Status SetConfigField(const google::protobuf::FieldDescriptor& field, absl::string_view text,
                            v1::ServerConfig& config);
// The textual form that SetConfigField reads.
std::string ConfigFieldText(const google::protobuf::FieldDescriptor& field,
                            const v1::ServerConfig& config);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_CONFIG_FIELDS_H_
