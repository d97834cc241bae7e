// Between the wire and the structs of core/engine: settings in, GetServerInfo's and ExportModel's
// answers out. Pure.
#ifndef LOCKSTEP_SERVER_SERVER_INFO_H_
#define LOCKSTEP_SERVER_SERVER_INFO_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/engine/engine.h"
#include "proto/lockstep/v1/lockstep.pb.h"
#include "server/settings.h"

namespace lockstep {

// CheckSettings must have passed.
EngineConfig ToEngineConfig(const v1::ServerConfig& config);

// Settings as in force: what the engine chose replaces "choose", and `listen` is the address that
// was bound. `out` is empty.
void FillServerInfo(const EngineInfo& info, const Settings& settings, const std::string& listen,
                    v1::GetServerInfoResponse& out);

namespace translate {

// The directory.
absl::StatusOr<std::string> FromProto(const v1::ExportModelRequest& request);
void ToProto(const ExportResult& result, v1::ExportModelResponse& out);

}  // namespace translate

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_SERVER_INFO_H_
