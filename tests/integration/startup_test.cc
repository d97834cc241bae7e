// Goal: whatever keeps a server from starting ends it with one clear line and the documented exit
// code, before it listens; a good one starts, tells its port, and stops on a signal. Method: real
// processes over damaged copies of the tiny model.

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/server_process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kExitSettings = 2;
constexpr int kExitModel = 3;
constexpr int kExitListen = 4;

std::string ReadWholeFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteWholeFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A copy of the tiny model after `damage`.
std::string DamagedModel(const std::function<void(const fs::path&)>& damage) {
  static int count = 0;
  const fs::path copy = fs::path(testing::TempDir()) / absl::StrCat("damaged-", ++count);
  fs::copy(TinyModelDirectory(), copy, fs::copy_options::recursive);
  damage(copy);
  return copy;
}

void ChangeConfig(const fs::path& directory, const std::string& field,
                  const nlohmann::json& value) {
  nlohmann::json config = nlohmann::json::parse(ReadWholeFile(directory / "config.json"));
  config[field] = value;
  WriteWholeFile(directory / "config.json", config.dump());
}

void ChangeWeights(const fs::path& directory, const std::function<void(std::string&)>& change) {
  std::string bytes = ReadWholeFile(directory / "model.safetensors");
  ASSERT_GT(bytes.size(), 8u);
  change(bytes);
  WriteWholeFile(directory / "model.safetensors", bytes);
}

// Starts a server that cannot start.
void ExpectFault(const std::vector<std::string>& flags, int exit_code,
                 const std::vector<std::string>& named) {
  std::vector<std::string> all = flags;
  all.push_back("--listen=127.0.0.1:0");
  const ProcessResult result = RunProcess(kServerBinary, all);
  SCOPED_TRACE(result.err);
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.out, "") << "never ready";
  EXPECT_TRUE(absl::StartsWith(result.err, "lockstep_server: "));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << "one line";
  for (const std::string& text : named) EXPECT_TRUE(absl::StrContains(result.err, text)) << text;
}

TEST(StartupTest, HelpAndVersion) {
  const ProcessResult help = RunProcess(kServerBinary, {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(help.out, "--kv_page_size"));
  EXPECT_EQ(RunProcess(kServerBinary, {"--version"}).exit_code, 0);
}

TEST(StartupTest, BadSettings) {
  ExpectFault({}, kExitSettings, {"model: required"});
  ExpectFault({"--modle=x"}, kExitSettings, {"--modle: unknown flag; did you mean --model?"});
  ExpectFault({"--model=x", "--kv_page_size=12"}, kExitSettings, {"kv_page_size", "12"});
  ExpectFault({"--model=x", "--insecure_remote=maybe"}, kExitSettings,
              {"insecure_remote", "maybe"});
  ExpectFault({"--model=x", "--config=/nowhere.json"}, kExitSettings, {"/nowhere.json"});
  const ProcessResult remote = RunProcess(kServerBinary, {"--model=x", "--listen=0.0.0.0:0"});
  EXPECT_EQ(remote.exit_code, kExitSettings);
  EXPECT_TRUE(absl::StrContains(remote.err, "--insecure_remote allows it")) << remote.err;
}

TEST(StartupTest, BadModels) {
  ExpectFault({"--model=/nowhere"}, kExitModel, {"/nowhere"});
  const std::string empty = testing::TempDir() + "/empty-directory";
  fs::create_directory(empty);
  ExpectFault({"--model", empty}, kExitModel, {"config.json"});
  const auto expect_fault = [](const std::vector<std::string>& named,
                               const std::function<void(const fs::path&)>& damage) {
    ExpectFault({"--model", DamagedModel(damage)}, kExitModel, named);
  };
  expect_fault({"config.json"}, [](const fs::path& directory) {
    WriteWholeFile(directory / "config.json", "{ not json");
  });
  expect_fault({"architectures", "GPT2LMHeadModel"}, [](const fs::path& directory) {
    ChangeConfig(directory, "architectures", {"GPT2LMHeadModel"});
  });
  expect_fault({"hidden_act", "gelu"},
               [](const fs::path& directory) { ChangeConfig(directory, "hidden_act", "gelu"); });
  expect_fault({"safetensors"},
               [](const fs::path& directory) { fs::remove(directory / "model.safetensors"); });
  expect_fault({"model.safetensors"}, [](const fs::path& directory) {
    ChangeWeights(directory, [](std::string& bytes) { bytes.resize(bytes.size() - 1000); });
  });
  expect_fault({"model.safetensors"}, [](const fs::path& directory) {
    ChangeWeights(directory, [](std::string& bytes) { bytes.resize(5); });
  });
  // A header that claims to be longer than any file.
  expect_fault({"model.safetensors"}, [](const fs::path& directory) {
    ChangeWeights(directory, [](std::string& bytes) { std::memset(bytes.data(), 0xff, 8); });
  });
  expect_fault({"model.safetensors"}, [](const fs::path& directory) {
    ChangeWeights(directory, [](std::string& bytes) { bytes[8] = 'x'; });
  });
  expect_fault({"mlp", "385"}, [](const fs::path& directory) {
    ChangeConfig(directory, "intermediate_size", 385);
  });
  expect_fault({"model.norm.weight"}, [](const fs::path& directory) {
    ChangeWeights(directory, [](std::string& bytes) {
      const size_t name = bytes.find("model.norm.weight");
      ASSERT_NE(name, std::string::npos);
      bytes[name + 6] = 'N';
    });
  });
}

TEST(StartupTest, PortInUse) {
  const auto first = ServerProcess::Start({"--model", TinyModelDirectory()});
  ASSERT_TRUE(first.ok()) << first.status();
  const ProcessResult second =
      RunProcess(kServerBinary,
                 {"--model", TinyModelDirectory(), absl::StrCat("--listen=", (*first)->address())});
  EXPECT_EQ(second.exit_code, kExitListen);
  EXPECT_EQ(second.err, absl::StrCat("lockstep_server: cannot listen on ", (*first)->address(),
                                     ": Address already in use\n"));
  const auto client = Client::Connect((*first)->address());
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE((*client)->Info().ok()) << "the first one goes on";
}

TEST(StartupTest, InitModelRefusesAnExistingDirectoryAndIsSeeded) {
  const std::string root = testing::TempDir();
  for (const char* name : {"/same-seed", "/other-seed"}) {
    const std::string seed = absl::EndsWith(name, "same-seed") ? "1" : "2";
    ASSERT_EQ(RunProcess(kServerBinary, {"init-model", root + name, "--seed", seed}).exit_code, 0);
  }
  const std::string weights = ReadWholeFile(TinyModelDirectory() + "/model.safetensors");
  EXPECT_TRUE(weights == ReadWholeFile(root + "/same-seed/model.safetensors"));
  EXPECT_FALSE(weights == ReadWholeFile(root + "/other-seed/model.safetensors"));
  EXPECT_EQ(RunProcess(kServerBinary, {"init-model", "/dev/null/model"}).exit_code, kExitModel);
  EXPECT_EQ(RunProcess(kServerBinary, {"init-model"}).exit_code, kExitSettings);
}

TEST(StartupTest, SignalsStopTheServer) {
  for (int signal : {SIGTERM, SIGINT}) {
    const auto server = ServerProcess::Start({"--model", TinyModelDirectory()});
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_TRUE(fs::exists((*server)->port_file()));
    (*server)->process().Signal(signal);
    const ProcessResult result = (*server)->process().Wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_FALSE(fs::exists((*server)->port_file())) << "a port file without a server";
  }
}

TEST(StartupTest, APortIsFreeAgainAfterAKill) {
  auto killed = ServerProcess::Start({"--model", TinyModelDirectory()});
  ASSERT_TRUE(killed.ok()) << killed.status();
  const std::string address = (*killed)->address();
  const auto client = Client::Connect(address);
  ASSERT_TRUE(client.ok());
  (*killed)->process().Signal(SIGKILL);
  EXPECT_EQ((*killed)->process().Wait().signal, SIGKILL);
  EXPECT_EQ((*client)->Info().status().code(), absl::StatusCode::kUnavailable);
  const auto next = ServerProcess::Start({"--model", TinyModelDirectory(), "--listen", address});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->address(), address);
}

}  // namespace
}  // namespace lockstep
