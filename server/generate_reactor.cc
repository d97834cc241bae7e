#include "server/generate_reactor.h"

#include <utility>

#include "core/base/status_macros.h"
#include "server/grpc_status.h"
#include "server/translate.h"

namespace lockstep {

GenerateReactor* GenerateReactor::Start(Engine& engine, const v1::GenerateRequest& request,
                                        absl::Time deadline) {
  auto* reactor = new GenerateReactor(engine);
  const absl::Status status = reactor->Begin(request, deadline);
  // The relay never ran, so nobody else finishes.
  if (!status.ok()) reactor->Finish(status);
  return reactor;
}

absl::Status GenerateReactor::Begin(const v1::GenerateRequest& message, absl::Time deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(GenerateRequest request, translate::FromProto(message));
  request.deadline = deadline;
  GenerateSink* const sink = this;
  relay_ = std::make_shared<GenerateRelay>(request.request_id,
                                           static_cast<int64_t>(request.prompt.size()), sink);
  LOCKSTEP_ASSIGN_OR_RETURN(handle_, engine_.Generate(std::move(request), relay_));
  return absl::OkStatus();
}

void GenerateReactor::OnCancel() {
  // The engine answers with OnDone, which finishes the call.
  if (handle_.has_value()) engine_.Cancel(*handle_);
}

void GenerateReactor::StartWrite(const v1::GenerateResponse& message) {
  grpc::ServerWriteReactor<v1::GenerateResponse>::StartWrite(&message);
}

void GenerateReactor::Finish(const absl::Status& status) {
  grpc::ServerWriteReactor<v1::GenerateResponse>::Finish(ToGrpcStatus(status));
}

}  // namespace lockstep
