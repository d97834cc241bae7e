// Goal: the engine's contract with its callers: what is refused at once, what is answered later and
// exactly once, and what Info shows. Method: real engines on the tiny model; where several things
// must meet in the queue, the loop is held still.
#include "core/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/engine_driver.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    config_.model_directory = directory_.PathOf("model");
    EXPECT_TRUE(WriteTinyModel(config_.model_directory, TinyModelConfig(true), 7).ok());
  }

  const TempDirectory directory_;
  EngineConfig config_;
};

GenerateRequest MakeGenerate(int32_t max_tokens = 4) {
  GenerateRequest request;
  request.prompt = {5, 6, 7};
  request.max_tokens = max_tokens;
  request.seed = 1;
  request.ignore_eos = true;
  return request;
}

TrainStepRequest MakeTrainStep(uint64_t seq_id = 1) {
  TrainStepRequest request;
  request.call = {"run", seq_id};
  Datum& datum = request.data.emplace_back();
  datum.model_input = {5, 6, 7};
  datum.target_tokens = {6, 7, 8};
  request.adamw.learning_rate = 0.01f;
  return request;
}

ParityRequest MakeParity() {
  ParityRequest request;
  request.num_prompts = 2;
  request.num_samples = 2;
  request.max_tokens = 3;
  return request;
}

TEST_F(EngineTest, ANewEngineSaysWhatItIs) {
  config_.stages = 2;
  EngineDriver driver(config_);
  const EngineInfo info = driver.engine().Info();
  EXPECT_EQ(info.model.vocab_size, kTinyVocabSize);
  EXPECT_GT(info.parameter_count, 0);
  EXPECT_EQ(info.config.stages, 2);
  EXPECT_GT(info.config.threads, 0);
  EXPECT_EQ(info.kv_pages_total, info.config.kv_page_count);
  EXPECT_GT(info.kv_pages_total, 0);
  EXPECT_EQ(info.weights.weight_version, 0u);
  EXPECT_FALSE(info.weights.numerics_id.empty());
  EXPECT_EQ(info.weights_digest.size(), 32u);
  EXPECT_EQ(info.running_sequences, 0);
  EXPECT_EQ(info.queued_requests, 0);
  EXPECT_EQ(driver.engine().limits().vocab_size, kTinyVocabSize);
  EXPECT_EQ(driver.engine().limits().context_length_max, 512);
}

TEST_F(EngineTest, BadSettingsAndModelsAreErrors) {
  EngineConfig stages = config_;
  stages.stages = 4;
  EXPECT_EQ(Engine::Create(stages).status().code(), absl::StatusCode::kInvalidArgument);
  EngineConfig nowhere = config_;
  nowhere.model_directory = directory_.PathOf("nowhere");
  EXPECT_EQ(Engine::Create(nowhere).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(EngineTest, BadInputIsRefusedAtOnce) {
  EngineDriver driver(config_);
  Engine& engine = driver.engine();
  GenerateRequest generate = MakeGenerate();
  generate.prompt.clear();
  EXPECT_EQ(engine.Generate(generate, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  TrainStepRequest train = MakeTrainStep();
  train.data[0].target_tokens[1] = kTinyVocabSize;
  EXPECT_EQ(engine.TrainStep(train, nullptr).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.ForwardBackward({{"", 1}, {}, {}, LossAggMode::kTokenSum, 0}, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.OptimStep({{"run", 0}, {}}, nullptr).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.Score({}, nullptr).code(), absl::StatusCode::kInvalidArgument);
  ParityRequest parity = MakeParity();
  parity.temperature = 0;
  EXPECT_EQ(engine.CheckParity(parity, nullptr).code(), absl::StatusCode::kInvalidArgument);
}

// It would wait at the head of the line for ever.
TEST_F(EngineTest, WhatNoPagesCanHoldIsRefusedAtOnce) {
  config_.kv_page_count = 2;  // 32 positions
  EngineDriver driver(config_);
  Engine& engine = driver.engine();
  const auto expect_exhausted = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("kv_page_count is 2"), std::string::npos) << status;
  };
  expect_exhausted(engine.Generate(MakeGenerate(31), nullptr).status());
  expect_exhausted(engine.Score({{{TinyTokens(1, 34), 1}}}, nullptr));
  ParityRequest parity = MakeParity();
  parity.prompts = {TinyTokens(1, 31)};
  expect_exhausted(engine.CheckParity(parity, nullptr));
  parity.prompts.clear();  // drawn ones may have 24 tokens
  parity.max_tokens = 10;
  expect_exhausted(engine.CheckParity(parity, nullptr));

  // One position less fits, and the line moves.
  EXPECT_TRUE(driver.Generate(MakeGenerate(30)).status.ok());
  EXPECT_TRUE(driver.Score({{{TinyTokens(1, 33), 1}}}).ok());
  parity.max_tokens = 9;
  EXPECT_TRUE(driver.CheckParity(parity)->passed());
}

TEST_F(EngineTest, AFullQueueRefusesAndNamesItsLimit) {
  config_.queue_depth_max = 4;
  EngineDriver driver(config_);
  std::vector<std::shared_ptr<GenerateRecorder>> accepted;
  {
    HeldLoop held(driver);  // one of the four
    for (int i = 0; i < 3; ++i) accepted.push_back(driver.StartGenerate(MakeGenerate()));
    const absl::Status refused =
        driver.engine().Generate(MakeGenerate(), std::make_shared<GenerateRecorder>(1)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(refused.message().find("queue_depth_max: 4"), std::string::npos) << refused;
    EXPECT_EQ(driver.engine().Score({{{{1, 2}, 1}}}, [](auto) { FAIL(); }).code(),
              absl::StatusCode::kResourceExhausted);
  }
  for (const auto& recorder : accepted) EXPECT_TRUE(recorder->Wait().status.ok());
  EXPECT_TRUE(driver.Generate(MakeGenerate()).status.ok());
}

TEST_F(EngineTest, SampleAndScoreAgreeAndSeedsAreReported) {
  EngineDriver driver(config_);
  GenerateRequest request = MakeGenerate(5);
  request.num_samples = 2;
  const Generated generated = driver.Generate(request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  EXPECT_EQ(generated.header.seed_used, 1u);
  for (const GeneratedSample& sample : generated.samples) {
    EXPECT_EQ(sample.finish_reason, FinishReason::kLength);
    std::vector<int32_t> tokens = request.prompt;
    tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
    const absl::StatusOr<ScoreResult> scored = driver.Score({{{tokens, 1}}});
    ASSERT_TRUE(scored.ok());
    EXPECT_EQ(std::vector<float>(scored->scores[0].logprobs.begin() + 3,
                                 scored->scores[0].logprobs.end()),
              sample.logprobs);
  }
  // An unset seed is a fresh one every time.
  request.seed.reset();
  const Generated first = driver.Generate(request);
  const Generated second = driver.Generate(request);
  EXPECT_NE(first.header.seed_used, second.header.seed_used);
  request.seed = first.header.seed_used;
  EXPECT_EQ(driver.Generate(request).samples[0].tokens, first.samples[0].tokens);
}

TEST_F(EngineTest, CancelAndDeadlineEndARequestAndFreeItsPages) {
  EngineDriver driver(config_);
  const auto recorder = std::make_shared<GenerateRecorder>(1);
  const absl::StatusOr<Engine::RequestHandle> handle =
      driver.engine().Generate(MakeGenerate(500), recorder);
  ASSERT_TRUE(handle.ok());
  recorder->WaitForStart();
  driver.engine().Cancel(*handle);
  EXPECT_EQ(recorder->Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_LT(recorder->token_count(), 500);
  driver.engine().Cancel(*handle);  // gone already
  driver.engine().Cancel(12345);    // never there

  GenerateRequest late = MakeGenerate();
  late.deadline = absl::UnixEpoch();
  const Generated expired = driver.Generate(late);
  EXPECT_EQ(expired.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(expired.samples[0].tokens.empty());

  HeldLoop held(driver);  // the turns that ended them are over
  EXPECT_EQ(driver.engine().Info().running_sequences, 0);
  EXPECT_EQ(driver.engine().Info().kv_pages_in_use, 0);
}

TEST_F(EngineTest, WhoeverHasAnAnswerFindsItsWeightsInInfo) {
  EngineDriver driver(config_);
  for (uint64_t step = 1; step <= 20; ++step) {
    const absl::StatusOr<TrainStepResult> result = driver.TrainStep(MakeTrainStep(step));
    ASSERT_TRUE(result.ok()) << result.status();
    const EngineInfo info = driver.engine().Info();
    EXPECT_EQ(info.weights.weight_version, step);
    EXPECT_EQ(info.weights.state_id, result->weights.state_id);
  }
}

TEST_F(EngineTest, ParityPassesAndLeavesNoPin) {
  config_.stages = 2;
  EngineDriver driver(config_);
  ASSERT_TRUE(driver.TrainStep(MakeTrainStep(1)).ok());
  const absl::StatusOr<ParityResult> result = driver.CheckParity(MakeParity());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->passed());
  EXPECT_EQ(result->compared_tokens(), 10 * 2 * 2 * 3);
  EXPECT_EQ(result->weights.weight_version, 1u);
  EXPECT_EQ(result->weights_digest, driver.engine().Info().weights_digest);
  ASSERT_TRUE(driver.TrainStep(MakeTrainStep(2)).ok());
  EXPECT_EQ(driver.engine().Info().pinned_weight_versions, 0);
}

TEST_F(EngineTest, ExportedWeightsLoadWithTheSameDigest) {
  config_.export_root = directory_.PathOf("exports");
  std::filesystem::create_directory(config_.export_root);
  config_.stages = 2;
  EngineDriver driver(config_);
  ASSERT_TRUE(driver.TrainStep(MakeTrainStep()).ok());
  const absl::StatusOr<ExportResult> exported = driver.ExportModel("step-1");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->weights.weight_version, 1u);
  EXPECT_EQ(exported->bytes, driver.engine().Info().parameter_count * 4);

  EngineConfig again = config_;
  again.model_directory = exported->path;
  again.stages = 1;
  EXPECT_EQ(EngineDriver(again).engine().Info().weights_digest,
            driver.engine().Info().weights_digest);

  EXPECT_EQ(driver.ExportModel("step-1").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(driver.ExportModel("../x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(driver.ExportModel("step-2/").ok());
}

TEST_F(EngineTest, WithoutAnExportRootNothingIsExported) {
  EngineDriver driver(config_);
  EXPECT_EQ(driver.ExportModel("x").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(EngineTest, DestructionAnswersEverythingOnce) {
  for (const int64_t stages : {1, 2}) {
    config_.stages = static_cast<int32_t>(stages);
    auto driver = std::make_unique<EngineDriver>(config_);
    std::vector<std::shared_ptr<GenerateRecorder>> recorders;  // each checks that its end is one
    for (int i = 0; i < 4; ++i) recorders.push_back(driver->StartGenerate(MakeGenerate(500)));
    recorders[0]->WaitForStart();
    std::atomic<int> answers{0};
    std::atomic<int> wrong{0};
    const auto note = [&](const absl::Status& status) {
      ++answers;
      if (!status.ok() && status.code() != absl::StatusCode::kUnavailable) ++wrong;
    };
    Engine& engine = driver->engine();
    ASSERT_TRUE(engine.TrainStep(MakeTrainStep(), [&](auto r) { note(r.status()); }).ok());
    ASSERT_TRUE(engine.Score({{{{1, 2, 3}, 1}}}, [&](auto r) { note(r.status()); }).ok());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(engine.CheckParity(MakeParity(), [&](auto r) { note(r.status()); }).ok());
    }
    driver.reset();
    EXPECT_EQ(answers, 5);
    EXPECT_EQ(wrong, 0);
    for (const auto& recorder : recorders) {
      const absl::Status status = recorder->Wait().status;
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kUnavailable) << status;
    }
  }
}

}  // namespace
}  // namespace lockstep
