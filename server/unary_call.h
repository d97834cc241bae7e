// One unary call whose answer comes later, from a thread of the engine. A client that goes away
// only detaches: what it asked for goes on, and the late answer finds nobody.
#ifndef LOCKSTEP_SERVER_UNARY_CALL_H_
#define LOCKSTEP_SERVER_UNARY_CALL_H_

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc_status.h"

namespace lockstep {

// Lifetime: owns itself; deleted by gRPC's OnDone, after Finish. Thread safety: whoever claims the
// ticket, and nobody else, finishes the call.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // The right to answer. Outlives the call where the engine holds on to it.
  class Ticket {
   public:
    explicit Ticket(UnaryCall* call) : call_(call) {}
    // The call, for the first who asks; null for everybody after that. Until the claimer finishes
    // the call, the response message that gRPC gave with it is alive.
    UnaryCall* Claim() { return call_.exchange(nullptr); }

   private:
    std::atomic<UnaryCall*> call_;
  };

  UnaryCall() : ticket_(std::make_shared<Ticket>(this)) {}

  const std::shared_ptr<Ticket>& ticket() const { return ticket_; }

  // REQUIRES: claimed.
  void Answer(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

 private:
  void OnCancel() override {
    if (ticket_->Claim() != nullptr) Answer(absl::CancelledError("the client went away"));
  }
  void OnDone() override { delete this; }

  const std::shared_ptr<Ticket> ticket_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_UNARY_CALL_H_
