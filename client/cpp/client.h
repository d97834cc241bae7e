// The C++ client of a Lockstep server: blocking calls that take and return the messages of
// lockstep.v1. Errors keep the server's code and message.
//
//   absl::StatusOr<std::unique_ptr<lockstep::Client>> client =
//       lockstep::Client::Connect("127.0.0.1:50551");
//   if (!client.ok()) return client.status();
//   lockstep::v1::GenerateRequest request;
//   request.add_prompt_token_ids(1);
//   return (*client)->Generate(request, [](const lockstep::v1::GenerateResponse& message) {
//     for (const auto& delta : message.deltas()) Show(delta);
//     return true;  // go on
//   });
#ifndef LOCKSTEP_CLIENT_CPP_CLIENT_H_
#define LOCKSTEP_CLIENT_CPP_CLIENT_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/lockstep/v1/lockstep.pb.h"

namespace grpc {
class ClientContext;
}

namespace lockstep {

// Ends a call from another thread. Usable for one call at a time; once cancelled, every call that
// it is given to ends with CANCELLED. Must outlive the call. Thread safe.
class Cancellation {
 public:
  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void Cancel();

 private:
  friend class Client;

  // Cancels the call at once when Cancel() came first. Null: the call is over.
  void SetCall(grpc::ClientContext* call);

  std::mutex mutex_;
  // Guarded by mutex_.
  grpc::ClientContext* call_ = nullptr;
  bool cancelled_ = false;
};

struct CallOptions {
  // From the start of the call; then DEADLINE_EXCEEDED. A training call goes on at the server all
  // the same, and repeating it with its seq_id gets the answer.
  absl::Duration timeout = absl::InfiniteDuration();
  Cancellation* cancellation = nullptr;
};

// Thread safety: calls may run at the same time on one client, from any threads. Lifetime: must
// outlive its calls.
class Client {
 public:
  // Waits up to `timeout` for a server; UNAVAILABLE naming the address when there is none.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& address, absl::Duration timeout = absl::Seconds(10));
  ~Client();

  absl::StatusOr<v1::GetServerInfoResponse> Info(const CallOptions& options = {});

  // Calls `on_message` for each message, on this thread. When it returns false the request is
  // cancelled, its remaining tokens are dropped, and CANCELLED is returned.
  absl::Status Generate(const v1::GenerateRequest& request,
                        absl::FunctionRef<bool(const v1::GenerateResponse&)> on_message,
                        const CallOptions& options = {});

  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request,
                                          const CallOptions& options = {});
  absl::StatusOr<v1::ForwardBackwardResponse> ForwardBackward(
      const v1::ForwardBackwardRequest& request, const CallOptions& options = {});
  absl::StatusOr<v1::OptimStepResponse> OptimStep(const v1::OptimStepRequest& request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::TrainStepResponse> TrainStep(const v1::TrainStepRequest& request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::CheckParityResponse> CheckParity(const v1::CheckParityRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::ExportModelResponse> ExportModel(const v1::ExportModelRequest& request,
                                                      const CallOptions& options = {});

 private:
  // gRPC's stub, kept out of this header.
  struct Stub;

  explicit Client(std::unique_ptr<Stub> stub);

  const std::unique_ptr<Stub> stub_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_CPP_CLIENT_H_
