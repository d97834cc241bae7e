// The RPCs of lockstep.v1: each translates, calls the engine, and translates the answer.
#ifndef LOCKSTEP_SERVER_LOCKSTEP_SERVICE_H_
#define LOCKSTEP_SERVER_LOCKSTEP_SERVICE_H_

#include <atomic>

#include "core/engine/engine.h"
#include "proto/lockstep/v1/lockstep.grpc.pb.h"
#include "server/listen_address.h"
#include "server/settings.h"

namespace lockstep {

// Thread safety: all, as gRPC calls it. `engine` must outlive every call: the gRPC server is shut
// down before the engine goes.
class LockstepService final : public v1::Lockstep::CallbackService {
 public:
  LockstepService(Engine& engine, Settings settings, ListenAddress listen)
      : engine_(engine),
        settings_(std::move(settings)),
        listen_(std::move(listen)),
        port_(listen_.port) {}

  // The port that was bound, for GetServerInfo.
  void set_port(int port) { port_ = port; }

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const v1::ScoreRequest* request,
                                  v1::ScoreResponse* response) override;
  grpc::ServerUnaryReactor* ForwardBackward(grpc::CallbackServerContext* context,
                                            const v1::ForwardBackwardRequest* request,
                                            v1::ForwardBackwardResponse* response) override;
  grpc::ServerUnaryReactor* OptimStep(grpc::CallbackServerContext* context,
                                      const v1::OptimStepRequest* request,
                                      v1::OptimStepResponse* response) override;
  grpc::ServerUnaryReactor* TrainStep(grpc::CallbackServerContext* context,
                                      const v1::TrainStepRequest* request,
                                      v1::TrainStepResponse* response) override;
  grpc::ServerUnaryReactor* CheckParity(grpc::CallbackServerContext* context,
                                        const v1::CheckParityRequest* request,
                                        v1::CheckParityResponse* response) override;
  grpc::ServerUnaryReactor* ExportModel(grpc::CallbackServerContext* context,
                                        const v1::ExportModelRequest* request,
                                        v1::ExportModelResponse* response) override;

 private:
  Engine& engine_;
  const Settings settings_;
  const ListenAddress listen_;

  std::atomic<int> port_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_LOCKSTEP_SERVICE_H_
