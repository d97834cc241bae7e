// Goal: the installed programs work together: `lockstep` against a server by LOCKSTEP_ADDRESS and
// by flag, with the exit status that CI relies on; a model exported by one server is loaded by the
// next.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/server_process.h"

namespace lockstep {
namespace {

// The rest of the line that begins with `label`.
std::string LineAfter(const std::string& text, const std::string& label) {
  const size_t begin = text.find(label);
  if (begin == std::string::npos) return "";
  const size_t end = text.find('\n', begin);
  return text.substr(begin + label.size(), end - begin - label.size());
}

TEST(CliProcessTest, GenerateTrainParityExport) {
  const std::string export_root = testing::TempDir() + "/exports";
  ASSERT_TRUE(std::filesystem::create_directory(export_root));
  auto server =
      ServerProcess::Start({"--model", TinyModelDirectory(), "--export_root", export_root});
  ASSERT_TRUE(server.ok()) << server.status();
  setenv("LOCKSTEP_ADDRESS", (*server)->address().c_str(), 1);

  ProcessResult result = RunProcess(kCliBinary, {"info"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string digest = LineAfter(result.out, "weights digest ");
  EXPECT_EQ(digest.size(), 32u) << result.out;

  result = RunProcess(kCliBinary, {"generate", "--prompt=72,101,108", "--seed=3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string tokens = result.out;
  EXPECT_EQ(RunProcess(kCliBinary, {"generate", "--prompt=72,101,108", "--seed=3"}).out, tokens);

  result = RunProcess(kCliBinary, {"parity", "--prompts=2", "--samples=2", "--max-tokens=8"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_TRUE(absl::StrContains(result.out, "PASS: mismatched tokens: 0 of ")) << result.out;

  const std::string data = testing::TempDir() + "/data.jsonl";
  std::ofstream(data) << R"({"model_input": [72, 101], "target_tokens": [101, 108]})"
                      << "\n";
  result = RunProcess(kCliBinary, {"train", "--data", data, "--run-id=r", "--lr=0.01"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string trained_digest = LineAfter(result.out, "weights digest: ");
  EXPECT_EQ(trained_digest.size(), 32u);
  EXPECT_NE(trained_digest, digest);

  result = RunProcess(kCliBinary, {"export", "--directory=one"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(RunProcess(kCliBinary, {"export", "--directory=one"}).exit_code, 3) << "is there";
  EXPECT_EQ(RunProcess(kCliBinary, {"export", "--directory=../out"}).exit_code, 3);
  EXPECT_EQ((*server)->Stop().exit_code, 0);
  EXPECT_EQ(RunProcess(kCliBinary, {"info"}).exit_code, 3) << "nobody there";

  auto next = ServerProcess::Start({"--model", export_root + "/one"});
  ASSERT_TRUE(next.ok()) << next.status();
  result = RunProcess(kCliBinary, {"info", "--address", (*next)->address()});
  EXPECT_EQ(LineAfter(result.out, "weights digest "), trained_digest);
  unsetenv("LOCKSTEP_ADDRESS");
}

}  // namespace
}  // namespace lockstep
