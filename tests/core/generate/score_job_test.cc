// Goal: what a Score request asks of the model, and where each answer goes. Method: the test plays
// batcher and gives results by hand.
#include "core/generate/score_job.h"

#include <cmath>
#include <optional>
#include <utility>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

class ScoreJobTest : public testing::Test {
 protected:
  void Make(std::vector<ScoreSequence> sequences) {
    job_.emplace(ScoreRequest{std::move(sequences)}, /*chunk_max=*/4,
                 [this](absl::StatusOr<ScoreResult> result) {
                   ++answers_;
                   answer_ = std::move(result);
                 });
  }

  // Results of `count` rows from `first`, with log-prob -(position) and so on.
  absl::StatusOr<bool> Give(Sequence& sequence, int64_t first, int64_t count) {
    std::vector<LogitsResult> results;
    for (int64_t i = 0; i < count; ++i) {
      LogitsResult& result = results.emplace_back();
      result.logprob = -static_cast<float>(first + i + 1);
      result.raw_logprob = 2 * result.logprob;
      result.entropy = 3 * -result.logprob;
    }
    return job_->OnResults(sequence, first, results);
  }

  std::optional<ScoreJob> job_;
  int answers_ = 0;
  absl::StatusOr<ScoreResult> answer_;
};

TEST_F(ScoreJobTest, WantsEveryPositionAgainstTheTokenBehindIt) {
  Make({{{5, 6, 7, 8}, 0.7f}});
  const Sequence sequence = job_->MakeSequence(0);
  EXPECT_EQ(sequence.positions_max, 3);  // the last token is a target alone
  EXPECT_EQ(sequence.runnable, 3);
  EXPECT_EQ(sequence.chunk_max, 4);
  std::vector<LogitsRow> wanted;
  job_->WantLogits(sequence, 1, 2, 10, &wanted);
  ASSERT_EQ(wanted.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(wanted[i].kind, LogitsRow::Kind::kScore);
    EXPECT_EQ(wanted[i].row, 10 + i);
    EXPECT_EQ(wanted[i].target, 7 + i);
    EXPECT_EQ(wanted[i].sampling.temperature, 0.7f);
  }
}

TEST_F(ScoreJobTest, AnswersGoToThePositionOfTheToken) {
  Make({{{5, 6, 7, 8}, 1}, {{9, 10}, 1}});
  EXPECT_EQ(job_->sequence_count(), 2);
  WeightsState weights;
  weights.weight_version = 4;
  job_->OnStart(weights);
  Sequence first = job_->MakeSequence(0);
  Sequence second = job_->MakeSequence(1);
  EXPECT_FALSE(*Give(first, 0, 2));
  EXPECT_TRUE(*Give(second, 0, 1));
  EXPECT_TRUE(*Give(first, 2, 1));
  job_->OnDone(absl::OkStatus());

  ASSERT_EQ(answers_, 1);
  ASSERT_TRUE(answer_.ok());
  EXPECT_EQ(answer_->weights.weight_version, 4u);
  ASSERT_EQ(answer_->scores.size(), 2u);
  const SequenceScore& score = answer_->scores[0];
  ASSERT_EQ(score.logprobs.size(), 4u);
  EXPECT_TRUE(std::isnan(score.logprobs[0]));
  EXPECT_TRUE(std::isnan(score.raw_logprobs[0]));
  EXPECT_TRUE(std::isnan(score.entropies[0]));
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(score.logprobs[i], -static_cast<float>(i));
    EXPECT_EQ(score.raw_logprobs[i], -2 * static_cast<float>(i));
    EXPECT_EQ(score.entropies[i], 3 * static_cast<float>(i));
  }
  EXPECT_EQ(answer_->scores[1].logprobs[1], -1);
}

TEST_F(ScoreJobTest, ASequenceOfOneTokenIsNaNAndComputesNothing) {
  Make({{{5}, 1}});
  EXPECT_EQ(job_->MakeSequence(0).positions_max, 0);
  job_->OnStart({});
  job_->OnDone(absl::OkStatus());
  ASSERT_TRUE(answer_.ok());
  ASSERT_EQ(answer_->scores[0].logprobs.size(), 1u);
  EXPECT_TRUE(std::isnan(answer_->scores[0].logprobs[0]));
}

TEST_F(ScoreJobTest, AnErrorIsTheAnswer) {
  Make({{{5, 6}, 1}});
  job_->OnDone(absl::CancelledError("enough"));
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(answer_.status(), absl::CancelledError("enough"));
}

}  // namespace
}  // namespace lockstep
