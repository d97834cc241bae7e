// The listening server: the service, standard health checking and reflection on one address.
#ifndef LOCKSTEP_SERVER_GRPC_SERVER_H_
#define LOCKSTEP_SERVER_GRPC_SERVER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "server/listen_address.h"
#include "server/settings.h"

namespace grpc {
class Server;
}

namespace lockstep {

class LockstepService;

// UNAVAILABLE, with the system's reason, when nothing can listen on `address` now. Sooner and
// clearer than what GrpcServer::Start finds out.
absl::Status CheckCanListen(const ListenAddress& address);

// Thread safety: Shutdown and port from any thread. Lifetime: `engine` must outlive it.
class GrpcServer {
 public:
  // Serves once it returns. UNAVAILABLE when the address is taken. REQUIRES: CheckSettings passed.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(Engine& engine,
                                                           const Settings& settings);
  ~GrpcServer();  // Shutdown(absl::ZeroDuration())
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  const ListenAddress& address() const { return address_; }  // with the port that was bound

  // Says NOT_SERVING, takes no new calls, gives those that run `grace` to end, cancels the rest,
  // and returns when no call touches the engine any more.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer(std::unique_ptr<LockstepService> service, std::unique_ptr<grpc::Server> server,
             ListenAddress address);

  // Members in the order in which they must outlive each other.
  const std::unique_ptr<LockstepService> service_;
  const std::unique_ptr<grpc::Server> server_;
  const ListenAddress address_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_GRPC_SERVER_H_
