#include "server/server_main.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/engine/engine.h"
#include "core/engine/tiny_model.h"
#include "glog/logging.h"
#include "server/command_line.h"
#include "server/grpc_server.h"
#include "server/port_file.h"
#include "server/resident_memory.h"
#include "server/server_info.h"
#include "server/settings.h"
#include "server/stop_signals.h"
#include "server/version.h"

extern char** environ;

namespace lockstep {
namespace {

enum ExitCode : int {
  kExitStopped = 0,
  kExitSettings = 2,
  kExitModel = 3,
  kExitListen = 4,
  kExitNotStopped = 5,
};

// Calls that run when a signal comes may still end by themselves.
constexpr absl::Duration kShutdownGrace = absl::Seconds(5);
// A training step in progress is waited for, but not longer than a service manager waits before it
// kills (systemd: 90 s, Kubernetes: 30 s).
constexpr absl::Duration kShutdownLimit = absl::Seconds(25);

// One line, whatever the message holds.
int Fail(ExitCode code, const absl::Status& status) {
  std::cerr << "lockstep_server: " << absl::StrReplaceAll(status.message(), {{"\n", " "}})
            << std::endl;
  return code;
}

std::vector<std::pair<std::string, std::string>> Environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.push_back(absl::StrSplit(*variable, absl::MaxSplits('=', 1)));
  }
  return variables;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("config file ", path, ": cannot be read"));
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

int InitTinyModel(const CommandLine& command_line) {
  const absl::Status status = WriteTinyModel(command_line.init_directory, command_line.init_seed);
  if (!status.ok()) return Fail(kExitModel, status);
  std::cout << "wrote a tiny byte-level Llama, seed " << command_line.init_seed << ", to "
            << command_line.init_directory << std::endl;
  return EXIT_SUCCESS;
}

// "; resident 0.82 GiB, at most 0.83 so far", empty where the system does not say.
std::string DescribeResident() {
  const absl::StatusOr<ResidentMemory> memory = ReadResidentMemory();
  if (!memory.ok()) return "";
  constexpr double kGib = int64_t{1} << 30;
  return absl::StrFormat("; resident %.2f GiB, at most %.2f so far",
                         static_cast<double>(memory->now_bytes) / kGib,
                         static_cast<double>(memory->peak_bytes) / kGib);
}

void AnnounceReady(const GrpcServer& server, const EngineInfo& info) {
  if (!info.instruction_set_note.empty()) LOG(WARNING) << info.instruction_set_note;
  std::cout << "lockstep_server " << kServerVersion << " ready on " << server.address().ToString()
            << ": " << info.model.architecture << ", " << info.parameter_count << " parameters, "
            << info.config.stages << " stage(s), " << info.instruction_set << ", "
            << info.weights.numerics_id << "\nmemory: " << Describe(info.memory)
            << DescribeResident() << std::endl;
}

int Serve(const Settings& settings, const EngineHooks& hooks, StopSignals& signals) {
  const v1::ServerConfig& config = settings.config;
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(config.listen());
  if (!address.ok()) return Fail(kExitSettings, address.status());
  if (!config.port_file().empty()) {
    const absl::Status removed = RemovePortFile(config.port_file());
    if (!removed.ok()) return Fail(kExitSettings, removed);
  }
  // Before the model is read, which may take minutes.
  const absl::Status can_listen = CheckCanListen(*address);
  if (!can_listen.ok()) return Fail(kExitListen, can_listen);

  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(ToEngineConfig(config), hooks);
  if (!engine.ok()) return Fail(kExitModel, engine.status());
  absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Start(**engine, settings);
  if (!server.ok()) return Fail(kExitListen, server.status());
  if (!config.port_file().empty()) {
    const absl::Status written = WritePortFile(config.port_file(), (*server)->address().port);
    if (!written.ok()) return Fail(kExitSettings, written);
  }
  AnnounceReady(**server, (*engine)->Info());

  // Not inside the LOG: a log line has the time at which it was begun.
  const std::string signal = signals.Wait();
  LOG(INFO) << signal << ": stopping";
  if (!config.port_file().empty()) (void)RemovePortFile(config.port_file());
  const bool stopped = signals.RunUnlessHurried(
      [&] {
        (*server)->Shutdown(kShutdownGrace);
        server->reset();
        LOG(INFO) << "all calls have ended";
        engine->reset();
      },
      kShutdownLimit);
  if (!stopped) {
    LOG(ERROR) << "not stopped in time: leaving";
    // Threads are still at work on what destructors would take away.
    std::_Exit(kExitNotStopped);
  }
  LOG(INFO) << "stopped";
  return kExitStopped;
}

}  // namespace

int ServerMain(int argc, char** argv, const EngineHooks& hooks) {
  StopSignals signals;
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;

  const absl::StatusOr<CommandLine> command_line =
      ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  if (!command_line.ok()) return Fail(kExitSettings, command_line.status());
  switch (command_line->command) {
    case CommandLine::Command::kHelp:
      std::cout << HelpText();
      return EXIT_SUCCESS;
    case CommandLine::Command::kVersion:
      std::cout << "lockstep_server " << kServerVersion << std::endl;
      return EXIT_SUCCESS;
    case CommandLine::Command::kInitModel:
      return InitTinyModel(*command_line);
    case CommandLine::Command::kServe:
      break;
  }
  const absl::StatusOr<Settings> settings = LoadSettings(
      {.arguments = command_line->flags, .environment = Environment(), .read_file = ReadFile});
  if (!settings.ok()) return Fail(kExitSettings, settings.status());
  const absl::Status checked = CheckSettings(*settings);
  if (!checked.ok()) return Fail(kExitSettings, checked);
  return Serve(*settings, hooks, signals);
}

}  // namespace lockstep
