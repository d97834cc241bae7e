// Goal: health checking and reflection answer as every gRPC tool expects. Method: generic calls
// with the few bytes of their messages written out, since Debian ships no generated code for them.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"

namespace lockstep {
namespace {

constexpr char kServing[] = "\x08\x01";     // HealthCheckResponse{status: SERVING}
constexpr char kNotServing[] = "\x08\x02";  // HealthCheckResponse{status: NOT_SERVING}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string FromBuffer(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// One message there and one back, on a streaming call.
class GenericClient {
 public:
  explicit GenericClient(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}

  // Empty: the call failed.
  std::string Call(const std::string& method, const std::string& request) {
    grpc::ClientContext context;
    const auto call = stub_.PrepareCall(&context, method, &queue_);
    call->StartCall(nullptr);
    if (!Next()) return "";
    call->Write(ToBuffer(request), nullptr);
    if (!Next()) return "";
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    const bool ok = Next();
    context.TryCancel();
    grpc::Status status;
    call->Finish(&status, nullptr);
    Next();
    return ok ? FromBuffer(response) : "";
  }

  // HealthCheckRequest{service} to Watch, whose first answer is the status now.
  std::string Health(const std::string& service) {
    const std::string request =
        service.empty() ? "" : absl::StrCat("\x0a", std::string(1, service.size()), service);
    return Call("/grpc.health.v1.Health/Watch", request);
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

TEST(StandardServicesTest, HealthSaysServing) {
  FakeServer server;
  GenericClient client(server.address());
  EXPECT_EQ(client.Health(""), kServing);
  EXPECT_EQ(client.Health("lockstep.v1.Lockstep"), kServing);
  EXPECT_NE(client.Health("no.such.Service"), kServing);
}

TEST(StandardServicesTest, HealthSaysNotServingWhileTheServerStops) {
  FakeServer server;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return ok;
  };
  const auto call = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  call->WriteLast(ToBuffer(""), grpc::WriteOptions(), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(next());
  EXPECT_EQ(FromBuffer(response), kServing);
  // The watcher is told before calls are cut off.
  server.server().Shutdown(absl::Seconds(1));
  call->Read(&response, nullptr);
  ASSERT_TRUE(next());
  EXPECT_EQ(FromBuffer(response), kNotServing);
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
}

TEST(StandardServicesTest, ReflectionListsTheServices) {
  FakeServer server;
  GenericClient client(server.address());
  // ServerReflectionRequest{list_services: "*"}
  const std::string services =
      client.Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*");
  EXPECT_TRUE(absl::StrContains(services, "lockstep.v1.Lockstep")) << services;
  EXPECT_TRUE(absl::StrContains(services, "grpc.health.v1.Health")) << services;
  // ServerReflectionRequest{file_containing_symbol: "lockstep.v1.Lockstep"}
  const std::string file =
      client.Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                  absl::StrCat("\x22\x14", "lockstep.v1.Lockstep"));
  EXPECT_TRUE(absl::StrContains(file, "proto/lockstep/v1/lockstep.proto")) << file;
}

}  // namespace
}  // namespace lockstep
