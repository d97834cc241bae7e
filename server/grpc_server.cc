#include "server/grpc_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "server/lockstep_service.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(Engine& engine,
                                                              const Settings& settings) {
  LOCKSTEP_ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(settings.config.listen()));
  auto service = std::make_unique<LockstepService>(engine, settings, address);

  // Both act on servers built after them.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address.ToString(), grpc::InsecureServerCredentials(), &address.port);
  builder.RegisterService(service.get());
  // Without this, two servers on one port share its connections and nobody notices.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  const int message_size_max = settings.config.message_size_max_mib() * (1 << 20);
  builder.SetMaxReceiveMessageSize(message_size_max);
  builder.SetMaxSendMessageSize(message_size_max);

  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || address.port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", settings.config.listen()));
  }
  service->set_port(address.port);
  return std::unique_ptr<GrpcServer>(
      new GrpcServer(std::move(service), std::move(server), std::move(address)));
}

GrpcServer::GrpcServer(std::unique_ptr<LockstepService> service,
                       std::unique_ptr<grpc::Server> server, ListenAddress address)
    : service_(std::move(service)), server_(std::move(server)), address_(std::move(address)) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(true);  // "", the server as a whole, and every service by name
  health->SetServingStatus(v1::Lockstep::service_full_name(), true);
}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

void GrpcServer::Shutdown(absl::Duration grace) {
  server_->GetHealthCheckService()->Shutdown();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
}

}  // namespace lockstep
