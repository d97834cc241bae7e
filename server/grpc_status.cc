#include "server/grpc_status.h"

#include <string>

namespace lockstep {
namespace {

// gRPC refuses more than 8 KiB of metadata by default, and a byte may be sent as "%xx".
constexpr size_t kMessageBytesMax = 2048;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message().substr(0, kMessageBytesMax));
  if (status.message().size() > kMessageBytesMax) message += "...";
  // Both follow google/rpc/code.proto, number by number.
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), message);
}

}  // namespace lockstep
