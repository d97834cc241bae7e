// Goal: admission in order of arrival, pages and pins given back in every state that a job can end
// in, and results that do not depend on company. Method: a real pipeline over the tiny model, and
// jobs that follow a script and note what they are told.
#include "core/generate/batcher.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_pipeline.h"

namespace lockstep {
namespace {

constexpr int64_t kPageSize = 16;

struct Script {
  int64_t prompt_length = 4;
  int64_t new_tokens = 3;  // 0: a job that computes nothing
  int64_t sequences = 1;
  int64_t chunk_max = 64;
  uint64_t prompt_seed = 1;
  absl::Time deadline = absl::InfiniteFuture();
  int64_t fail_at = -1;  // error of the job at this many tokens of a sequence
};

// What a job was told. Outlives it.
struct Log {
  int starts = 0;
  int step_ends = 0;
  std::vector<absl::Status> ends;
  WeightsState weights;
  std::map<int64_t, std::vector<int32_t>> tokens;  // drawn, by sequence
  std::map<int64_t, std::vector<float>> logprobs;
  std::vector<int64_t> chunks;  // rows that each result came of

  bool ok() const { return ends.size() == 1 && ends[0].ok(); }
};

class ScriptedJob final : public Job {
 public:
  ScriptedJob(const Script& script, Log* log, std::vector<const Log*>* start_order)
      : script_(script), log_(log), start_order_(start_order) {}

  absl::Time deadline() const override { return script_.deadline; }
  int64_t sequence_count() const override { return script_.sequences; }
  Sequence MakeSequence(int64_t index) override {
    Sequence sequence;
    sequence.index = index;
    sequence.chunk_max = script_.chunk_max;
    if (script_.new_tokens == 0) return sequence;
    sequence.tokens = TinyTokens(script_.prompt_seed, script_.prompt_length);
    sequence.runnable = script_.prompt_length;
    sequence.positions_max = script_.prompt_length + script_.new_tokens - 1;
    return sequence;
  }
  void OnStart(const WeightsState& weights) override {
    ++log_->starts;
    log_->weights = weights;
    start_order_->push_back(log_);
  }
  void WantLogits(const Sequence& sequence, int64_t first, int64_t count, int64_t row,
                  std::vector<LogitsRow>* wanted) const override {
    log_->chunks.push_back(count);
    if (first + count < static_cast<int64_t>(sequence.tokens.size())) return;
    LogitsRow last;
    last.row = static_cast<int32_t>(row + count - 1);
    last.draw = {script_.prompt_seed, static_cast<uint64_t>(sequence.index),
                 static_cast<uint64_t>(sequence.tokens.size())};
    wanted->push_back(last);
  }
  absl::StatusOr<bool> OnResults(Sequence& sequence, int64_t,
                                 absl::Span<const LogitsResult> results) override {
    if (results.empty()) return false;
    sequence.tokens.push_back(results[0].token);
    sequence.runnable = static_cast<int64_t>(sequence.tokens.size());
    std::vector<int32_t>& tokens = log_->tokens[sequence.index];
    tokens.push_back(results[0].token);
    log_->logprobs[sequence.index].push_back(results[0].logprob);
    if (static_cast<int64_t>(tokens.size()) == script_.fail_at) {
      return absl::InternalError("as the script says");
    }
    return static_cast<int64_t>(tokens.size()) == script_.new_tokens;
  }
  std::string NameOf(const Sequence& sequence) const override {
    return "sequence " + std::to_string(sequence.index);
  }
  void OnStepEnd() override { ++log_->step_ends; }
  void OnDone(const absl::Status& status) override { log_->ends.push_back(status); }

 private:
  const Script script_;
  Log* const log_;
  std::vector<const Log*>* const start_order_;
};

class BatcherTest : public testing::Test {
 protected:
  explicit BatcherTest(const TinyPipelineOptions& options = {}) : tiny_(options) { Limit({}); }

  // A batcher with other limits.
  void Limit(BatcherLimits limits) {
    limits.page_size = kPageSize;
    if (limits.page_count == 0) limits.page_count = 64;
    batcher_ = std::make_unique<Batcher>(limits, &tiny_.pipeline(), &versions_);
  }

  Log* Add(const Script& script, const WeightsState* pinned = nullptr) {
    Log* log = logs_.emplace_back(std::make_unique<Log>()).get();
    batcher_->Add(next_id_++, std::make_unique<ScriptedJob>(script, log, &start_order_), pinned);
    return log;
  }
  Batcher::JobId last_id() const { return next_id_ - 1; }

  void Step() {
    ASSERT_TRUE(batcher_->Submit().ok());
    if (!batcher_->in_flight()) return;
    ASSERT_TRUE(batcher_->Collect().ok());
  }
  void RunAll() {
    for (int step = 0; !batcher_->idle(); ++step) {
      ASSERT_LT(step, 1000) << "never done";
      ASSERT_NO_FATAL_FAILURE(Step());
    }
  }

  // A step of the optimizer: other weights, the next version.
  void AdvanceWeights() {
    TrainingPlan plan;
    TrainingMicroBatch& micro_batch = plan.micro_batches.emplace_back();
    const std::vector<int32_t> tokens = TinyTokens(77, 9);
    micro_batch.batch.Append(tokens.data(), 8, 0, {0});
    micro_batch.datum_begins = {0, 8};
    micro_batch.loss_inputs.temperature.assign(8, 1);
    micro_batch.loss_inputs.target.assign(tokens.begin() + 1, tokens.end());
    micro_batch.loss_inputs.mask.assign(8, 1);
    micro_batch.loss_inputs.weight.assign(8, 1);
    micro_batch.loss_inputs.old_logprob.assign(8, 0);
    micro_batch.loss_inputs.advantage.assign(8, 0);
    plan.weight_version = versions_.current().weight_version;
    ASSERT_TRUE(tiny_.pipeline().Train(std::move(plan)).ok());
    WeightsState next = versions_.current();
    next.state_id[0] = static_cast<uint8_t>(++next.weight_version);
    tiny_.Step(next.weight_version);
    versions_.Advance(std::move(next));
  }

  void ExpectNothingHeld() {
    EXPECT_TRUE(batcher_->idle());
    EXPECT_EQ(batcher_->pages_in_use(), 0);
    EXPECT_EQ(batcher_->running_sequences(), 0);
    EXPECT_EQ(batcher_->waiting_jobs(), 0);
    EXPECT_EQ(versions_.retired_count(), 0);
  }

  TinyPipeline tiny_;
  WeightVersions versions_{&tiny_.pipeline(), WeightsState{}};
  std::unique_ptr<Batcher> batcher_;
  std::vector<std::unique_ptr<Log>> logs_;
  std::vector<const Log*> start_order_;
  Batcher::JobId next_id_ = 1;
};

class TwoStageBatcherTest : public BatcherTest {
 protected:
  TwoStageBatcherTest() : BatcherTest({.stages = 2}) {}
};

TEST_F(BatcherTest, PagesRoundUp) {
  EXPECT_EQ(Batcher::PagesFor(0, 16), 0);
  EXPECT_EQ(Batcher::PagesFor(1, 16), 1);
  EXPECT_EQ(Batcher::PagesFor(16, 16), 1);
  EXPECT_EQ(Batcher::PagesFor(17, 16), 2);
}

TEST_F(BatcherTest, AJobRunsToItsEndAndLeavesNothing) {
  Log* log = Add({.new_tokens = 5, .sequences = 3});
  RunAll();
  EXPECT_EQ(log->starts, 1);
  EXPECT_TRUE(log->ok());
  ASSERT_EQ(log->tokens.size(), 3u);
  for (const auto& [index, tokens] : log->tokens) EXPECT_EQ(tokens.size(), 5u);
  EXPECT_NE(log->tokens[0], log->tokens[1]);
  EXPECT_EQ(log->step_ends, 5);
  ExpectNothingHeld();
}

TEST_F(BatcherTest, ResultsDoNotDependOnCompanyChunksOrBudget) {
  const Script script{.prompt_length = 37, .new_tokens = 6, .prompt_seed = 3};
  Log* alone = Add(script);
  RunAll();
  for (const int64_t budget : {1, 2, 7, 512}) {
    for (const int64_t chunk : {1, 5, 64}) {
      BatcherLimits limits;
      limits.step_tokens_max = budget;
      Limit(limits);
      Add({.prompt_length = 21, .new_tokens = 9, .sequences = 2, .prompt_seed = 8});
      Script cut = script;
      cut.chunk_max = chunk;
      Log* log = Add(cut);
      Log* other = Add({.prompt_length = 37, .new_tokens = 6, .prompt_seed = 4});
      RunAll();
      EXPECT_EQ(log->tokens, alone->tokens) << budget << " rows, chunks of " << chunk;
      EXPECT_TRUE(SameBits(log->logprobs[0], alone->logprobs[0]));
      EXPECT_FALSE(SameBits(other->logprobs[0], alone->logprobs[0]));
      for (const int64_t count : log->chunks) EXPECT_LE(count, std::min(chunk, budget));
    }
  }
}

TEST_F(TwoStageBatcherTest, KeepsAsManyMicroBatchesInFlightAsThereAreStages) {
  const Script script{.new_tokens = 4, .sequences = 4};
  Log* log = Add(script);
  ASSERT_TRUE(batcher_->Submit().ok());
  EXPECT_EQ(tiny_.pipeline().inference_in_flight(), 2);
  RunAll();
  EXPECT_TRUE(log->ok());

  TinyPipeline one;
  WeightVersions versions(&one.pipeline(), {});
  Batcher batcher({.page_size = kPageSize, .page_count = 64}, &one.pipeline(), &versions);
  Log expected;
  batcher.Add(1, std::make_unique<ScriptedJob>(script, &expected, &start_order_));
  while (!batcher.idle()) {
    ASSERT_TRUE(batcher.Submit().ok());
    ASSERT_TRUE(batcher.Collect().ok());
  }
  EXPECT_EQ(log->tokens, expected.tokens);
  for (const auto& [index, logprobs] : expected.logprobs) {
    EXPECT_TRUE(SameBits(log->logprobs[index], logprobs));
  }
}

TEST_F(BatcherTest, NobodyOvertakesTheFirstInLine) {
  BatcherLimits limits;
  limits.page_count = 4;
  Limit(limits);
  Log* first = Add({.prompt_length = 40, .new_tokens = 8});   // 3 pages
  Log* second = Add({.prompt_length = 20, .new_tokens = 3});  // 2 pages: has to wait
  Log* third = Add({.prompt_length = 4, .new_tokens = 2});    // 1 page, which is free
  Step();
  EXPECT_EQ(first->starts, 1);
  EXPECT_EQ(second->starts, 0);
  EXPECT_EQ(third->starts, 0);
  EXPECT_EQ(batcher_->pages_in_use(), 3);
  EXPECT_EQ(batcher_->waiting_jobs(), 2);
  RunAll();
  EXPECT_EQ(start_order_, (std::vector<const Log*>{first, second, third}));
  for (const Log* log : {first, second, third}) EXPECT_TRUE(log->ok());
  ExpectNothingHeld();
}

TEST_F(BatcherTest, SequencesOfOneJobAreAdmittedAsRoomComes) {
  BatcherLimits limits;
  limits.running_sequences_max = 2;
  Limit(limits);
  Log* log = Add({.new_tokens = 2, .sequences = 5});
  Log* next = Add({.new_tokens = 1});
  int64_t most = 0;
  while (!batcher_->idle()) {
    ASSERT_TRUE(batcher_->Submit().ok());
    most = std::max(most, batcher_->running_sequences());
    ASSERT_TRUE(batcher_->Collect().ok());
  }
  EXPECT_EQ(most, 2);
  EXPECT_EQ(log->starts, 1);
  EXPECT_EQ(log->tokens.size(), 5u);
  EXPECT_TRUE(log->ok());
  EXPECT_TRUE(next->ok());
}

TEST_F(BatcherTest, EndedWhileWaitingItWasNeverStarted) {
  BatcherLimits limits;
  limits.page_count = 1;
  Limit(limits);
  Log* running = Add({.new_tokens = 4});
  Log* waiting = Add({.new_tokens = 4});
  const Batcher::JobId id = last_id();
  Step();
  batcher_->End(id, absl::CancelledError("enough"));
  EXPECT_EQ(waiting->ends, std::vector<absl::Status>{absl::CancelledError("enough")});
  EXPECT_EQ(waiting->starts, 0);
  EXPECT_EQ(batcher_->waiting_jobs(), 0);
  RunAll();
  EXPECT_TRUE(running->ok());
  EXPECT_EQ(waiting->ends.size(), 1u);
  ExpectNothingHeld();
}

TEST_F(BatcherTest, EndedBetweenTwoStepsItsPagesAreFreeAtOnce) {
  Log* log = Add({.new_tokens = 40, .sequences = 3});
  Step();
  Step();
  EXPECT_GT(batcher_->pages_in_use(), 0);
  batcher_->End(last_id(), absl::CancelledError("enough"));
  ExpectNothingHeld();
  EXPECT_EQ(log->tokens[0].size(), 2u);
  EXPECT_EQ(log->ends.size(), 1u);
  batcher_->End(last_id(), absl::CancelledError("again"));
  EXPECT_EQ(log->ends.size(), 1u);
}

TEST_F(BatcherTest, EndedInFlightItsPagesAreHeldUntilTheMicroBatchIsBack) {
  Log* log = Add({.new_tokens = 40, .sequences = 2});
  Log* other = Add({.new_tokens = 3});
  ASSERT_TRUE(batcher_->Submit().ok());
  const int64_t pages = batcher_->pages_in_use();
  batcher_->End(1, absl::CancelledError("enough"));
  EXPECT_EQ(log->ends.size(), 1u);
  EXPECT_EQ(batcher_->pages_in_use(), pages);  // the stages still write to them
  batcher_->End(1, absl::CancelledError("again"));
  ASSERT_TRUE(batcher_->Collect().ok());
  EXPECT_TRUE(log->tokens.empty());
  EXPECT_EQ(batcher_->pages_in_use(), 1);
  RunAll();
  EXPECT_EQ(log->ends.size(), 1u);
  EXPECT_TRUE(other->ok());
  ExpectNothingHeld();
}

TEST_F(BatcherTest, EndedWithSequencesOfEveryKind) {
  BatcherLimits limits;
  limits.running_sequences_max = 3;
  limits.step_tokens_max = 2;
  Limit(limits);
  // Of four sequences one or two are in flight, one is ready and one waits.
  Log* log = Add({.prompt_length = 1, .new_tokens = 9, .sequences = 4});
  ASSERT_TRUE(batcher_->Submit().ok());
  EXPECT_EQ(batcher_->running_sequences(), 3);
  EXPECT_EQ(batcher_->waiting_jobs(), 1);
  batcher_->End(last_id(), absl::CancelledError("enough"));
  EXPECT_EQ(batcher_->running_sequences(), 2);
  ASSERT_TRUE(batcher_->Collect().ok());
  EXPECT_EQ(log->ends.size(), 1u);
  ExpectNothingHeld();
}

TEST_F(BatcherTest, EndingWhoIsNotThereIsNothing) {
  batcher_->End(99, absl::CancelledError("who?"));
  ExpectNothingHeld();
}

TEST_F(BatcherTest, EndAllEndsEveryoneOnce) {
  BatcherLimits limits;
  limits.page_count = 2;
  Limit(limits);
  std::vector<Log*> logs;
  for (int i = 0; i < 5; ++i) logs.push_back(Add({.new_tokens = 9}));
  ASSERT_TRUE(batcher_->Submit().ok());
  batcher_->EndAll(absl::UnavailableError("going"));
  ASSERT_TRUE(batcher_->Collect().ok());
  for (const Log* log : logs) {
    EXPECT_EQ(log->ends, std::vector<absl::Status>{absl::UnavailableError("going")});
  }
  ExpectNothingHeld();
}

TEST_F(BatcherTest, DeadlinesEndJobsInEveryState) {
  BatcherLimits limits;
  limits.page_count = 2;
  Limit(limits);
  const absl::Time now = absl::FromUnixSeconds(1000);
  Log* passed = Add({.new_tokens = 9, .deadline = now});
  Log* later = Add({.new_tokens = 2, .deadline = now + absl::Seconds(1)});
  Log* waiting = Add({.new_tokens = 9, .deadline = now - absl::Seconds(1)});
  ASSERT_TRUE(batcher_->Submit().ok());
  batcher_->EndExpired(now);
  for (const Log* log : {passed, waiting}) {
    ASSERT_EQ(log->ends.size(), 1u);
    EXPECT_EQ(log->ends[0].code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(later->ends.empty());
  RunAll();
  EXPECT_TRUE(later->ok());
  ExpectNothingHeld();
}

TEST_F(BatcherTest, AnErrorOfOneSequenceEndsItsJobAndNoOther) {
  Log* failing = Add({.new_tokens = 5, .sequences = 3, .fail_at = 2});
  Log* other = Add({.new_tokens = 5});
  RunAll();
  EXPECT_EQ(failing->ends, std::vector<absl::Status>{absl::InternalError("as the script says")});
  EXPECT_EQ(failing->step_ends, 2);  // what the step brought before the error is handed over
  EXPECT_TRUE(other->ok());
  ExpectNothingHeld();
}

// Every row of this model overflows a square sum from its embedding on; nobody wants the logits of
// the first chunk.
class OverflowingBatcherTest : public BatcherTest {
 protected:
  OverflowingBatcherTest()
      : BatcherTest(
            {.stages = 2, .huge_tensor = "model.embed_tokens.weight", .huge_value = 1e20f}) {}
};

TEST_F(OverflowingBatcherTest, ARowThatIsNotFiniteEndsItsJobNamingPositionAndPart) {
  const Log* job = Add({.prompt_length = 6, .chunk_max = 2});
  ASSERT_NO_FATAL_FAILURE(RunAll());
  ASSERT_EQ(job->ends.size(), 1u);
  EXPECT_EQ(job->ends[0],
            absl::InternalError("sequence 0: position 0 is not finite from the embedding on"));
  EXPECT_TRUE(job->tokens.empty());
  EXPECT_EQ(batcher_->pages_in_use(), 0);
}

TEST_F(BatcherTest, JobsThatComputeNothingAreDoneWhenAdmitted) {
  Log* nothing = Add({.new_tokens = 0, .sequences = 3});
  Log* none = Add({.sequences = 0});
  ASSERT_TRUE(batcher_->Submit().ok());
  EXPECT_FALSE(batcher_->in_flight());
  EXPECT_EQ(nothing->starts, 1);
  EXPECT_TRUE(nothing->ok());
  EXPECT_TRUE(none->ok());
  ExpectNothingHeld();
}

TEST_F(BatcherTest, ARunningJobKeepsTheWeightsItBeganWith) {
  const Script script{.prompt_length = 20, .new_tokens = 6};
  Log* undisturbed = Add(script);
  RunAll();

  Log* across = Add(script);
  Step();
  AdvanceWeights();
  EXPECT_EQ(versions_.retired_count(), 1);
  Log* after = Add(script);
  Step();
  // Both versions run side by side, each in micro-batches of its own.
  EXPECT_EQ(across->weights.weight_version, 0u);
  EXPECT_EQ(after->weights.weight_version, 1u);
  RunAll();
  EXPECT_EQ(across->tokens, undisturbed->tokens);
  EXPECT_TRUE(SameBits(across->logprobs[0], undisturbed->logprobs[0]));
  EXPECT_FALSE(SameBits(after->logprobs[0], undisturbed->logprobs[0]));
  Log* after_alone = Add(script);
  RunAll();
  EXPECT_TRUE(SameBits(after->logprobs[0], after_alone->logprobs[0]));
  ExpectNothingHeld();
}

TEST_F(BatcherTest, TwoVersionsTakeTurns) {
  Log* old = Add({.new_tokens = 12});
  Step();
  AdvanceWeights();
  Log* current = Add({.new_tokens = 12});
  for (int step = 0; step < 8; ++step) Step();
  EXPECT_EQ(old->tokens[0].size(), 5u);
  EXPECT_EQ(current->tokens[0].size(), 4u);
}

TEST_F(BatcherTest, EveryEndUnpins) {
  // One each that is done, ended between steps, ended in flight, failed, and never started.
  Add({.new_tokens = 2});
  Add({.new_tokens = 30});
  Add({.new_tokens = 30});
  Add({.new_tokens = 30, .fail_at = 2});
  Step();
  AdvanceWeights();
  EXPECT_EQ(versions_.retired_count(), 1);
  Step();
  batcher_->End(2, absl::CancelledError("enough"));
  ASSERT_TRUE(batcher_->Submit().ok());
  batcher_->End(3, absl::CancelledError("enough"));
  EXPECT_EQ(versions_.retired_count(), 1);
  ASSERT_TRUE(batcher_->Collect().ok());
  ExpectNothingHeld();
}

TEST_F(BatcherTest, AVersionPinnedByTheCallerIsTheCallersToUnpin) {
  const WeightsState pinned = versions_.Pin();
  AdvanceWeights();
  Log* old = Add({.new_tokens = 3}, &pinned);
  Log* current = Add({.new_tokens = 3});
  RunAll();
  EXPECT_EQ(old->weights.weight_version, 0u);
  EXPECT_EQ(current->weights.weight_version, 1u);
  EXPECT_EQ(versions_.retired_count(), 1);
  versions_.Unpin(0);
  ExpectNothingHeld();
}

TEST_F(BatcherTest, ThousandsOfAbortsLeakNoPage) {
  BatcherLimits limits;
  limits.page_count = 8;
  limits.running_sequences_max = 4;
  Limit(limits);
  for (int i = 0; i < 2000; ++i) {
    Add({.prompt_length = 1 + i % 20, .new_tokens = 1 + i % 7, .sequences = 1 + i % 3});
    if (i % 3 == 0) {
      ASSERT_TRUE(batcher_->Submit().ok());
    }
    if (i % 2 == 0) batcher_->End(last_id() - i % 5, absl::CancelledError("enough"));
    if (i % 7 == 0 && batcher_->in_flight()) {
      ASSERT_TRUE(batcher_->Collect().ok());
    }
    if (i % 50 == 0) batcher_->EndAll(absl::CancelledError("all"));
  }
  batcher_->EndAll(absl::CancelledError("all"));
  while (batcher_->in_flight()) ASSERT_TRUE(batcher_->Collect().ok());
  for (const auto& log : logs_) EXPECT_EQ(log->ends.size(), 1u);
  ExpectNothingHeld();
}

TEST_F(BatcherTest, AFailedPipelineIsReported) {
  Log* log = Add({.new_tokens = 3});
  InferencePlan unknown;
  unknown.weight_version = 99;
  ASSERT_TRUE(tiny_.pipeline().Submit(unknown).ok());
  EXPECT_EQ(tiny_.pipeline().NextInference().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(batcher_->Submit().code(), absl::StatusCode::kUnavailable);
  batcher_->EndAll(absl::UnavailableError("down"));
  EXPECT_EQ(log->ends, std::vector<absl::Status>{absl::UnavailableError("down")});
}

}  // namespace
}  // namespace lockstep
