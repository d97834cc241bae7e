#include "server/lockstep_service.h"

#include <chrono>
#include <utility>

#include "server/generate_reactor.h"
#include "server/server_info.h"
#include "server/translate.h"
#include "server/unary_call.h"

namespace lockstep {
namespace {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

// Answers `call` when the engine does.
template <typename Result, typename Response>
Engine::Callback<Result> AnswerWith(const UnaryCall& call, Response* response) {
  return [ticket = call.ticket(), response](absl::StatusOr<Result> result) {
    UnaryCall* call = ticket->Claim();
    if (call == nullptr) return;
    if (result.ok()) translate::ToProto(*result, *response);
    call->Answer(result.status());
  };
}

void RefuseUnlessOk(const absl::Status& status, UnaryCall& call) {
  // The engine has not taken the callback, so nobody has claimed the ticket.
  if (!status.ok()) call.ticket()->Claim()->Answer(status);
}

// One RPC: translate, hand to the engine's `method`, answer when it does.
template <typename Message, typename Response, typename Request, typename Result>
grpc::ServerUnaryReactor* Run(Engine& engine,
                              absl::Status (Engine::*method)(Request, Engine::Callback<Result>),
                              const Message& message, Response* response) {
  auto* call = new UnaryCall;
  absl::StatusOr<Request> request = translate::FromProto(message);
  const absl::Status status =
      request.ok() ? (engine.*method)(*std::move(request), AnswerWith<Result>(*call, response))
                   : request.status();
  RefuseUnlessOk(status, *call);
  return call;
}

}  // namespace

grpc::ServerUnaryReactor* LockstepService::GetServerInfo(grpc::CallbackServerContext* context,
                                                         const v1::GetServerInfoRequest*,
                                                         v1::GetServerInfoResponse* response) {
  ListenAddress bound = listen_;
  bound.port = port_;
  FillServerInfo(engine_.Info(), settings_, bound.ToString(), *response);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<v1::GenerateResponse>* LockstepService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  return GenerateReactor::Start(engine_, *request, DeadlineOf(*context));
}

grpc::ServerUnaryReactor* LockstepService::Score(grpc::CallbackServerContext*,
                                                 const v1::ScoreRequest* request,
                                                 v1::ScoreResponse* response) {
  return Run(engine_, &Engine::Score, *request, response);
}

grpc::ServerUnaryReactor* LockstepService::ForwardBackward(
    grpc::CallbackServerContext*, const v1::ForwardBackwardRequest* request,
    v1::ForwardBackwardResponse* response) {
  return Run(engine_, &Engine::ForwardBackward, *request, response);
}

grpc::ServerUnaryReactor* LockstepService::OptimStep(grpc::CallbackServerContext*,
                                                     const v1::OptimStepRequest* request,
                                                     v1::OptimStepResponse* response) {
  return Run(engine_, &Engine::OptimStep, *request, response);
}

grpc::ServerUnaryReactor* LockstepService::TrainStep(grpc::CallbackServerContext*,
                                                     const v1::TrainStepRequest* request,
                                                     v1::TrainStepResponse* response) {
  return Run(engine_, &Engine::TrainStep, *request, response);
}

grpc::ServerUnaryReactor* LockstepService::CheckParity(grpc::CallbackServerContext*,
                                                       const v1::CheckParityRequest* request,
                                                       v1::CheckParityResponse* response) {
  return Run(engine_, &Engine::CheckParity, *request, response);
}

grpc::ServerUnaryReactor* LockstepService::ExportModel(grpc::CallbackServerContext*,
                                                       const v1::ExportModelRequest* request,
                                                       v1::ExportModelResponse* response) {
  return Run(engine_, &Engine::ExportModel, *request, response);
}

}  // namespace lockstep
