// The real gRPC front on a free port, over a FakeEngine.
#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_SERVER_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_SERVER_H_

#include <memory>
#include <string>

#include "server/grpc_server.h"
#include "tests/support/fake_engine.h"

namespace lockstep {

// Settings of a server on 127.0.0.1 and a port that the system picks.
Settings FakeServerSettings();

class FakeServer {
 public:
  explicit FakeServer(const Settings& settings = FakeServerSettings());
  // Ends every call.
  ~FakeServer() = default;

  FakeEngine& engine() { return engine_; }
  GrpcServer& server() { return *server_; }
  std::string address() const { return server_->address().ToString(); }

 private:
  FakeEngine engine_;
  std::unique_ptr<GrpcServer> server_;  // goes before the engine
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_SERVER_H_
