#include "tests/support/fake_server.h"

#include <utility>

#include "core/base/check.h"

namespace lockstep {

Settings FakeServerSettings() {
  Settings settings{.config = DefaultServerConfig(), .sources = {}};
  settings.config.set_model("fake");
  settings.config.set_listen("127.0.0.1:0");
  settings.sources = {{"model", "flag"}, {"listen", "environment"}};
  return settings;
}

FakeServer::FakeServer(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Start(engine_, settings);
  LOCKSTEP_CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
}

}  // namespace lockstep
