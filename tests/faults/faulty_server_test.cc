// Goal: `lockstep parity` tells a faulty server from a healthy one by its exit status, which is all
// that CI looks at.
// Method: the installed command line against a real process of the test-only server, one for each
// fault. A stale weight shows only after a step; a fault in the backward pass or the optimizer is
// not parity's to find (tests/faults/planted_faults_test.cc shows the digests that find it).
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/server_process.h"

namespace lockstep {
namespace {

constexpr char kFaultyServerBinary[] = "tests/faults/faulty_lockstep_server";

std::unique_ptr<ServerProcess> StartFaulty(const std::string& fault) {
  std::vector<std::string> flags = {"--model", TinyModelDirectory(), "--threads=1"};
  if (!fault.empty()) flags.push_back("--plant_fault=" + fault);
  auto server = ServerProcess::Start(flags, kFaultyServerBinary);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

ProcessResult RunCli(const ServerProcess& server, std::vector<std::string> arguments) {
  arguments.push_back("--address=" + server.address());
  return RunProcess(kCliBinary, arguments);
}

ProcessResult RunParity(const ServerProcess& server) {
  return RunCli(server, {"parity", "--prompts=3", "--samples=2", "--max-tokens=20"});
}

TEST(FaultyServerTest, WithoutAFaultParityPasses) {
  const auto server = StartFaulty("");
  ASSERT_NE(server, nullptr);
  const ProcessResult result = RunParity(*server);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(absl::StrContains(result.out, "PASS: mismatched tokens: 0 of 1200 compared"))
      << result.out;
}

class ForwardFaultTest : public testing::TestWithParam<const char*> {};

TEST_P(ForwardFaultTest, ParityExitsWithOne) {
  const auto server = StartFaulty(GetParam());
  ASSERT_NE(server, nullptr);
  const ProcessResult result = RunParity(*server);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_TRUE(absl::StrContains(result.out, "FAIL: mismatched tokens: ")) << result.out;
  EXPECT_TRUE(absl::StrContains(result.out, ": 0x")) << result.out;
}

INSTANTIATE_TEST_SUITE_P(Faults, ForwardFaultTest,
                         testing::Values("split_k_small_batch", "extra_rounding_decode",
                                         "stale_page", "log_prob_off_by_one"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FaultyServerTest, AStaleWeightFailsParityAfterAStep) {
  const auto server = StartFaulty("stale_weight");
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(RunParity(*server).exit_code, 0);
  const std::string data = testing::TempDir() + "/data.jsonl";
  std::ofstream(data) << R"({"model_input": [72, 101, 108], "target_tokens": [101, 108, 108]})"
                      << "\n";
  const ProcessResult trained =
      RunCli(*server, {"train", "--data", data, "--run-id=r", "--lr=0.01"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProcessResult result = RunParity(*server);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
}

TEST(FaultyServerTest, AnUnknownFaultIsRefused) {
  const ProcessResult result = RunProcess(kFaultyServerBinary, {"--plant_fault=gremlins"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(absl::StrContains(result.err, "gremlins")) << result.err;
}

// The programs that are installed know nothing of faults.
TEST(FaultyServerTest, TheRealServerKnowsNoFaults) {
  const ProcessResult result = RunProcess(
      kServerBinary, {"--model", TinyModelDirectory(), "--plant_fault=split_k_small_batch"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(result.err, "plant_fault")) << result.err;
}

}  // namespace
}  // namespace lockstep
