#include "client/cpp/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/lockstep/v1/lockstep.grpc.pb.h"

namespace lockstep {
namespace {

absl::Status FromGrpcStatus(const grpc::Status& status) {
  // Both follow google/rpc/code.proto, number by number.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

struct Client::Stub {
  // Makes a context as `options` say and runs `call` with it.
  absl::Status Run(const CallOptions& options,
                   absl::FunctionRef<absl::Status(grpc::ClientContext&)> call) {
    grpc::ClientContext context;
    if (options.timeout != absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
    }
    if (options.cancellation != nullptr) options.cancellation->SetCall(&context);
    const absl::Status status = call(context);
    if (options.cancellation != nullptr) options.cancellation->SetCall(nullptr);
    return status;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Unary(grpc::Status (v1::Lockstep::Stub::*method)(grpc::ClientContext*,
                                                                            const Request&,
                                                                            Response*),
                                 const Request& request, const CallOptions& options) {
    Response response;
    const absl::Status status = Run(options, [&](grpc::ClientContext& context) {
      return FromGrpcStatus((stub.get()->*method)(&context, request, &response));
    });
    if (!status.ok()) return status;
    return response;
  }

  const std::unique_ptr<v1::Lockstep::Stub> stub;
};

void Cancellation::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  if (call_ != nullptr) call_->TryCancel();
}

void Cancellation::SetCall(grpc::ClientContext* call) {
  std::lock_guard<std::mutex> lock(mutex_);
  call_ = call;
  if (call_ != nullptr && cancelled_) call_->TryCancel();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        absl::Duration timeout) {
  grpc::ChannelArguments arguments;
  // The server's limits are the ones that count; gRPC's own for answers would be 4 MiB.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + timeout))) {
    return absl::UnavailableError(absl::StrCat("no server answers on ", address));
  }
  return std::unique_ptr<Client>(
      new Client(std::unique_ptr<Stub>(new Stub{v1::Lockstep::NewStub(channel)})));
}

Client::Client(std::unique_ptr<Stub> stub) : stub_(std::move(stub)) {}

Client::~Client() = default;

absl::Status Client::Generate(const v1::GenerateRequest& request,
                              absl::FunctionRef<bool(const v1::GenerateResponse&)> on_message,
                              const CallOptions& options) {
  return stub_->Run(options, [&](grpc::ClientContext& context) {
    const auto reader = stub_->stub->Generate(&context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
      if (on_message(message)) continue;
      context.TryCancel();
      while (reader->Read(&message)) {
      }
      reader->Finish();
      return absl::CancelledError("ended by the caller");
    }
    return FromGrpcStatus(reader->Finish());
  });
}

absl::StatusOr<v1::GetServerInfoResponse> Client::Info(const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::GetServerInfo, v1::GetServerInfoRequest(), options);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::Score, request, options);
}

absl::StatusOr<v1::ForwardBackwardResponse> Client::ForwardBackward(
    const v1::ForwardBackwardRequest& request, const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::ForwardBackward, request, options);
}

absl::StatusOr<v1::OptimStepResponse> Client::OptimStep(const v1::OptimStepRequest& request,
                                                        const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::OptimStep, request, options);
}

absl::StatusOr<v1::TrainStepResponse> Client::TrainStep(const v1::TrainStepRequest& request,
                                                        const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::TrainStep, request, options);
}

absl::StatusOr<v1::CheckParityResponse> Client::CheckParity(const v1::CheckParityRequest& request,
                                                            const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::CheckParity, request, options);
}

absl::StatusOr<v1::ExportModelResponse> Client::ExportModel(const v1::ExportModelRequest& request,
                                                            const CallOptions& options) {
  return stub_->Unary(&v1::Lockstep::Stub::ExportModel, request, options);
}

}  // namespace lockstep
