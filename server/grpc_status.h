// The one place where a Status of ours becomes gRPC's.
#ifndef LOCKSTEP_SERVER_GRPC_STATUS_H_
#define LOCKSTEP_SERVER_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace lockstep {

// The same code and message; the message is cut where it would not fit into the trailing metadata.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_GRPC_STATUS_H_
