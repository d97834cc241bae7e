// Goal: each subcommand does what it says, in words and in JSON, with the documented exit status.
// Method: the command line in this process against a fake server.
#include "client/cli/cli.h"

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"

namespace lockstep::cli {
namespace {

class CliTest : public testing::Test {
 protected:
  int Lockstep(const std::vector<std::string>& arguments) {
    std::ostringstream out;
    std::ostringstream err;
    Surroundings surroundings{.out = out, .err = err};
    surroundings.err_is_terminal = err_is_terminal_;
    surroundings.default_address = server_.address();
    const int code = cli::Run(arguments, surroundings);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::string WriteData(int lines) {
    const std::string path = absl::StrCat(testing::TempDir(), "/data", lines, ".jsonl");
    std::ofstream file(path);
    for (int i = 0; i < lines; ++i) {
      file << R"({"model_input": [5, 6], "target_tokens": [6, 7], "mask": [0, 1]})"
           << "\n";
    }
    return path;
  }

  FakeServer server_;
  std::string out_;
  std::string err_;
  bool err_is_terminal_ = false;
};

TEST_F(CliTest, Usage) {
  EXPECT_EQ(Lockstep({}), kExitUsage);
  EXPECT_TRUE(absl::StrContains(err_, "parity"));
  EXPECT_EQ(Lockstep({"--help"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "parity"));
  EXPECT_EQ(Lockstep({"generat"}), kExitUsage);
  EXPECT_TRUE(absl::StrContains(err_, "no subcommand \"generat\""));
  for (const char* subcommand : {"info", "generate", "score", "train", "parity", "export"}) {
    EXPECT_EQ(Lockstep({subcommand, "--help"}), kExitOk);
    EXPECT_TRUE(absl::StrContains(out_, "--address")) << subcommand;
    EXPECT_EQ(Lockstep({subcommand, "--nonsense=1"}), kExitUsage);
    EXPECT_EQ(err_, absl::StrCat("lockstep ", subcommand, ": --nonsense: unknown\n"));
  }
  EXPECT_EQ(Lockstep({"train", "--help"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "\"model_input\": [5, 6, 7]")) << "documents its file";
}

TEST_F(CliTest, Info) {
  EXPECT_EQ(Lockstep({"info"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "weights digest digest of weights\n")) << out_;
  EXPECT_TRUE(absl::StrContains(out_, "12345 parameters"));
  EXPECT_EQ(Lockstep({"info", "--json"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "\"parameter_count\":\"12345\"")) << out_;
}

TEST_F(CliTest, Generate) {
  EXPECT_EQ(Lockstep({"generate", "--prompt=1,2", "--seed=5", "--max-tokens=3", "--num-samples=2",
                      "--temperature=0.5", "--top-p=0.9", "--top-k=4", "--min-p=0.1", "--stop=7,8",
                      "--ignore-eos", "--logprobs"}),
            kExitOk);
  EXPECT_EQ(out_,
            "seed 5, weight version 0\n"
            "sample 0 (length): 5,6,7\n"
            "  logprobs: -0.125,-0.25,-0.375\n"
            "sample 1 (length): 105,106,107\n"
            "  logprobs: -0.125,-0.25,-0.375\n");
  const GenerateRequest request = server_.engine().last_generate();
  EXPECT_EQ(request.sampling,
            (SamplingParams{.temperature = 0.5f, .top_p = 0.9f, .top_k = 4, .min_p = 0.1f}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{7, 8}));
  EXPECT_TRUE(request.ignore_eos);

  EXPECT_EQ(Lockstep({"generate", "--prompt=1", "--seed=5", "--max-tokens=3", "--json", "True"}),
            kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "\"seed_used\":\"5\"")) << out_;
  EXPECT_EQ(Lockstep({"generate"}), kExitUsage);
  EXPECT_EQ(err_, "lockstep generate: --prompt: required\n");
  EXPECT_EQ(Lockstep({"generate", "--prompt=70000"}), kExitRpc);
  EXPECT_EQ(err_,
            "lockstep generate: INVALID_ARGUMENT: prompt_token_ids[0]: 70000 is outside the "
            "vocabulary [0, 1000)\n");
  EXPECT_EQ(out_, "");
}

TEST_F(CliTest, Score) {
  EXPECT_EQ(Lockstep({"score", "--tokens=4,5"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "1        5           -1.5")) << out_;
  EXPECT_EQ(Lockstep({"score", "--tokens=4,5", "--json"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "\"logprobs\":[-1.5,-1.5]")) << out_;
  EXPECT_EQ(Lockstep({"score", "--tokens=4,x"}), kExitUsage);
  EXPECT_EQ(Lockstep({"score", "--tokens=4", "--temperature=0"}), kExitRpc);
}

TEST_F(CliTest, Train) {
  const std::string data = WriteData(5);
  EXPECT_EQ(
      Lockstep({"train", "--data", data, "--run-id=r", "--lr=0.1", "--epochs=2", "--batch-size=2"}),
      kExitOk)
      << err_;
  EXPECT_EQ(server_.engine().applied_steps(), 6u) << "two epochs of 2 + 2 + 1";
  EXPECT_TRUE(absl::StrContains(err_, "step 6/6  loss 1.5000")) << err_;
  EXPECT_TRUE(absl::StrContains(out_, "mismatched tokens: 0 of 0 compared\n"));
  EXPECT_TRUE(absl::StrContains(out_, "weights digest: digest of weights\n"));
  EXPECT_TRUE(absl::StrContains(out_, "weight version: 6\n"));

  err_is_terminal_ = true;
  EXPECT_EQ(Lockstep({"train", "--data", data, "--run-id=s", "--lr=0.1", "--json"}), kExitOk);
  EXPECT_TRUE(absl::StrContains(err_, "[##############################] 1/1")) << err_;
  EXPECT_TRUE(absl::StrContains(out_, "\"token_count\":\"10\"")) << out_;
}

TEST_F(CliTest, TrainRefusesBeforeItConnects) {
  const std::string data = WriteData(1);
  const auto error = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train", "--run-id=r", "--lr=0.1",
                                          "--address=127.0.0.1:1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Lockstep(arguments), kExitUsage);
    return err_;
  };
  EXPECT_EQ(error({"--data=/nowhere"}), "lockstep train: /nowhere: cannot be read\n");
  EXPECT_EQ(error({"--data", data, "--loss=gspo"}),
            "lockstep train: --loss: must be cross_entropy or ppo, is \"gspo\"\n");
  EXPECT_EQ(error({"--data", data, "--loss-agg-mode=mean"}),
            "lockstep train: --loss-agg-mode: must be token-sum or token-mean, is \"mean\"\n");
  EXPECT_EQ(error({"--data", data, "--batch-size=0"}),
            "lockstep train: --batch-size: must be >= 1\n");
  EXPECT_EQ(error({"--data", WriteData(0)}),
            absl::StrCat("lockstep train: ", WriteData(0), ": holds no data\n"));
  EXPECT_EQ(server_.engine().applied_steps(), 0u);
}

TEST_F(CliTest, TrainStopsAtTheServersError) {
  EXPECT_EQ(Lockstep({"train", "--data", WriteData(1), "--run-id=r", "--lr=-1"}), kExitRpc);
  EXPECT_EQ(err_,
            "lockstep train: INVALID_ARGUMENT: adamw.learning_rate: must be >= 0 and finite, is "
            "-1\n");
}

TEST_F(CliTest, ParityPassesAndFails) {
  const std::vector<std::string> arguments = {"parity", "--prompts=2", "--samples=3",
                                              "--max-tokens=5"};
  EXPECT_EQ(Lockstep(arguments), kExitOk);
  EXPECT_TRUE(absl::StrContains(out_, "PASS: mismatched tokens: 0 of 30 compared\n")) << out_;
  server_.engine().set_parity_mismatches(4);
  EXPECT_EQ(Lockstep(arguments), kExitMismatch);
  EXPECT_TRUE(absl::StrContains(out_, "FAIL: mismatched tokens: 4 of 30 compared\n")) << out_;
  EXPECT_TRUE(absl::StrContains(out_, "rollout 1 position 2: 0xbf800000, 0xbf800001")) << out_;
  EXPECT_EQ(Lockstep({"parity", "--json"}), kExitMismatch);
  EXPECT_TRUE(absl::StrContains(out_, "\"passed\":false"));
  EXPECT_EQ(Lockstep({"parity", "--prompts=0"}), kExitRpc);
  EXPECT_EQ(Lockstep({"parity", "--prompts=two"}), kExitUsage);
}

TEST_F(CliTest, Export) {
  EXPECT_EQ(Lockstep({"export", "--directory=d"}), kExitOk);
  EXPECT_EQ(out_, "wrote 1234 bytes to /exports/d, weight version 0\n");
  EXPECT_EQ(Lockstep({"export", "--directory="}), kExitRpc);
  EXPECT_EQ(Lockstep({"export"}), kExitUsage);
}

}  // namespace
}  // namespace lockstep::cli
