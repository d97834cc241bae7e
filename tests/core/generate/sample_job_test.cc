// Goal: what a Generate request asks of the model and hands to its observer. Method: the test plays
// batcher: it makes the sequences, counts positions and gives results by hand.
#include "core/generate/sample_job.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

class Recorder final : public GenerateObserver {
 public:
  void OnStart(const GenerateHeader& header) override { headers.push_back(header); }
  void OnDeltas(std::vector<SampleDelta> deltas) override { steps.push_back(std::move(deltas)); }
  void OnDone(const absl::Status& status) override { ends.push_back(status); }

  std::vector<GenerateHeader> headers;
  std::vector<std::vector<SampleDelta>> steps;
  std::vector<absl::Status> ends;
};

GenerateRequest MakeRequest(std::vector<int32_t> prompt, int32_t max_tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.5f;
  return request;
}

class SampleJobTest : public testing::Test {
 protected:
  void Make(GenerateRequest request) {
    job_ = std::make_unique<SampleJob>(std::move(request), /*seed=*/42,
                                       /*eos_token_ids=*/std::vector<int32_t>{2, 3},
                                       /*chunk_max=*/8, observer_);
  }

  std::vector<LogitsRow> Wanted(const Sequence& sequence, int64_t first, int64_t count,
                                int64_t row) {
    std::vector<LogitsRow> wanted;
    job_->WantLogits(sequence, first, count, row, &wanted);
    return wanted;
  }

  // Gives `token` as the drawn one; whether the sequence is finished.
  bool Draw(Sequence& sequence, int32_t token, float logprob = -1) {
    LogitsResult result;
    result.token = token;
    result.logprob = logprob;
    result.raw_logprob = 2 * logprob;
    const absl::StatusOr<bool> finished =
        job_->OnResults(sequence, sequence.runnable - 1, {&result, 1});
    EXPECT_TRUE(finished.ok()) << finished.status();
    job_->OnStepEnd();
    return *finished;
  }

  const std::shared_ptr<Recorder> observer_ = std::make_shared<Recorder>();
  std::unique_ptr<SampleJob> job_;
};

TEST_F(SampleJobTest, ComputesAllButTheLastToken) {
  Make(MakeRequest({7, 8, 9}, 5));
  const Sequence sequence = job_->MakeSequence(1);
  EXPECT_EQ(sequence.index, 1);
  EXPECT_EQ(sequence.tokens, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(sequence.runnable, 3);
  EXPECT_EQ(sequence.positions_max, 3 + 5 - 1);
  EXPECT_EQ(sequence.chunk_max, 8);
  EXPECT_EQ(sequence.computed, 0);
}

TEST_F(SampleJobTest, OneTokenBehindAPromptOfOneComputesOnePosition) {
  Make(MakeRequest({7}, 1));
  Sequence sequence = job_->MakeSequence(0);
  EXPECT_EQ(sequence.positions_max, 1);
  EXPECT_EQ(Wanted(sequence, 0, 1, 4).size(), 1u);
  EXPECT_TRUE(Draw(sequence, 11));
  EXPECT_EQ(observer_->steps.at(0).at(0).finish_reason, FinishReason::kLength);
}

TEST_F(SampleJobTest, WantsTheLastKnownPositionAlone) {
  Make(MakeRequest({7, 8, 9, 10}, 5));
  const Sequence sequence = job_->MakeSequence(3);
  EXPECT_TRUE(Wanted(sequence, 0, 3, 0).empty());
  EXPECT_TRUE(Wanted(sequence, 1, 2, 0).empty());
  const std::vector<LogitsRow> wanted = Wanted(sequence, 2, 2, 20);
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].kind, LogitsRow::Kind::kSample);
  EXPECT_EQ(wanted[0].row, 21);
  EXPECT_EQ(wanted[0].sampling.temperature, 0.5f);
  // The draw is named by seed, sample and the position of the token that is drawn.
  EXPECT_EQ(wanted[0].draw.seed, 42u);
  EXPECT_EQ(wanted[0].draw.sample_index, 3u);
  EXPECT_EQ(wanted[0].draw.position, 4u);
}

TEST_F(SampleJobTest, GrowsTokenByTokenAndReportsBothLogProbs) {
  Make(MakeRequest({7, 8}, 3));
  job_->OnStart({});
  Sequence sequence = job_->MakeSequence(0);
  EXPECT_FALSE(Draw(sequence, 20, -0.5f));
  EXPECT_EQ(sequence.runnable, 3);
  EXPECT_EQ(sequence.tokens.back(), 20);
  EXPECT_EQ(Wanted(sequence, 2, 1, 0).at(0).draw.position, 3u);
  EXPECT_FALSE(Draw(sequence, 21, -0.25f));
  EXPECT_TRUE(Draw(sequence, 22, -0.75f));
  job_->OnDone(absl::OkStatus());

  ASSERT_EQ(observer_->headers.size(), 1u);
  EXPECT_EQ(observer_->headers[0].seed_used, 42u);
  ASSERT_EQ(observer_->steps.size(), 3u);
  const SampleDelta& second = observer_->steps[1].at(0);
  EXPECT_EQ(second.tokens, std::vector<int32_t>{21});
  EXPECT_EQ(second.logprobs, std::vector<float>{-0.25f});
  EXPECT_EQ(second.raw_logprobs, std::vector<float>{-0.5f});
  EXPECT_EQ(second.finish_reason, FinishReason::kNone);
  EXPECT_EQ(observer_->steps[2].at(0).finish_reason, FinishReason::kLength);
  EXPECT_EQ(observer_->steps[2].at(0).stop_token, -1);
  ASSERT_EQ(observer_->ends.size(), 1u);
  EXPECT_TRUE(observer_->ends[0].ok());
}

TEST_F(SampleJobTest, EosAndStopTokensEndASampleAndAreReportedWithTheirLogProb) {
  GenerateRequest request = MakeRequest({7}, 5);
  request.stop_token_ids = {30};
  for (const int32_t stop : {2, 3, 30}) {
    Make(request);
    Sequence sequence = job_->MakeSequence(0);
    EXPECT_FALSE(Draw(sequence, 31));
    EXPECT_TRUE(Draw(sequence, stop, -4));
    const SampleDelta& last = observer_->steps.back().at(0);
    EXPECT_EQ(last.finish_reason, FinishReason::kStop);
    EXPECT_EQ(last.stop_token, stop);
    EXPECT_EQ(last.tokens, std::vector<int32_t>{stop});
    EXPECT_EQ(last.logprobs, std::vector<float>{-4});
  }
}

TEST_F(SampleJobTest, AStopAtTheLastTokenIsAStop) {
  Make(MakeRequest({7}, 1));
  Sequence sequence = job_->MakeSequence(0);
  EXPECT_TRUE(Draw(sequence, 2));
  EXPECT_EQ(observer_->steps.at(0).at(0).finish_reason, FinishReason::kStop);
}

TEST_F(SampleJobTest, IgnoreEosLeavesTheRequestsOwnStops) {
  GenerateRequest request = MakeRequest({7}, 5);
  request.stop_token_ids = {30};
  request.ignore_eos = true;
  Make(request);
  Sequence sequence = job_->MakeSequence(0);
  EXPECT_FALSE(Draw(sequence, 2));
  EXPECT_FALSE(Draw(sequence, 3));
  EXPECT_TRUE(Draw(sequence, 30));
}

TEST_F(SampleJobTest, SamplesOfAStepShareOneMessage) {
  GenerateRequest request = MakeRequest({7}, 5);
  request.num_samples = 3;
  Make(request);
  EXPECT_EQ(job_->sequence_count(), 3);
  LogitsResult result;
  for (int64_t i = 0; i < 2; ++i) {
    Sequence sequence = job_->MakeSequence(2 * i);
    result.token = static_cast<int32_t>(40 + i);
    EXPECT_FALSE(*job_->OnResults(sequence, 0, {&result, 1}));
  }
  job_->OnStepEnd();
  job_->OnStepEnd();  // no tokens, no message
  ASSERT_EQ(observer_->steps.size(), 1u);
  ASSERT_EQ(observer_->steps[0].size(), 2u);
  EXPECT_EQ(observer_->steps[0][0].sample_index, 0);
  EXPECT_EQ(observer_->steps[0][1].sample_index, 2);
}

TEST_F(SampleJobTest, AChunkInTheMiddleOfAPromptGivesNothing) {
  Make(MakeRequest({7, 8, 9}, 2));
  Sequence sequence = job_->MakeSequence(0);
  EXPECT_FALSE(*job_->OnResults(sequence, 0, {}));
  job_->OnStepEnd();
  EXPECT_TRUE(observer_->steps.empty());
  EXPECT_EQ(sequence.tokens.size(), 3u);
}

TEST_F(SampleJobTest, HasTheRequestsDeadline) {
  GenerateRequest request = MakeRequest({7}, 1);
  request.deadline = absl::FromUnixSeconds(5);
  Make(request);
  EXPECT_EQ(job_->deadline(), absl::FromUnixSeconds(5));
}

}  // namespace
}  // namespace lockstep
