// The gRPC side of one Generate call: starts the request on the engine, writes what its relay hands
// out, and cancels it when the client goes away.
#ifndef LOCKSTEP_SERVER_GENERATE_REACTOR_H_
#define LOCKSTEP_SERVER_GENERATE_REACTOR_H_

#include <memory>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/engine/engine.h"
#include "grpcpp/support/server_callback.h"
#include "proto/lockstep/v1/generation.pb.h"
#include "server/generate_relay.h"

namespace lockstep {

// Lifetime: owns itself; gRPC's OnDone deletes it, which comes after Finish and after every other
// reaction has returned. The relay may live longer, on the engine's side.
class GenerateReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                              private GenerateSink {
 public:
  // A reactor to return to gRPC. A bad request finishes at once.
  static GenerateReactor* Start(Engine& engine, const v1::GenerateRequest& request,
                                absl::Time deadline);

 private:
  explicit GenerateReactor(Engine& engine) : engine_(engine) {}

  absl::Status Begin(const v1::GenerateRequest& request, absl::Time deadline);

  // gRPC's reactions.
  void OnWriteDone(bool ok) override { relay_->OnWriteDone(ok); }
  void OnCancel() override;
  void OnDone() override { delete this; }

  // GenerateSink.
  void StartWrite(const v1::GenerateResponse& message) override;
  void Finish(const absl::Status& status) override;

  Engine& engine_;
  // Both set before gRPC learns of the reactor, which is before any reaction.
  std::shared_ptr<GenerateRelay> relay_;
  absl::optional<Engine::RequestHandle> handle_;  // unset: refused
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_GENERATE_REACTOR_H_
