// Goal: every task runs exactly once, with OK or with the reason why not, in order and within the
// limits, whatever ends the loop. Method: a real core on the tiny model; the loop is held still by
// a control task until everything that must be there together is queued.
#include "core/engine/loop.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

constexpr int32_t kQueueDepthMax = 3;

// What a task was called with. Read after the loop is gone, or after a later task ran.
using Calls = std::vector<absl::Status>;

class LoopTest : public testing::Test {
 protected:
  LoopTest() {
    const TempDirectory directory;
    EngineConfig config;
    config.model_directory = directory.PathOf("model");
    config.queue_depth_max = kQueueDepthMax;
    config.stages = 2;
    EXPECT_TRUE(WriteTinyModel(config.model_directory, TinyModelConfig(true), 7).ok());
    absl::StatusOr<std::unique_ptr<EngineCore>> core = EngineCore::Create(config, {});
    EXPECT_TRUE(core.ok()) << core.status();
    core_ = *std::move(core);
    loop_ = std::make_unique<Loop>(core_.get());
  }

  static Loop::Task NoteIn(Calls* calls) {
    return [calls](const absl::Status& status) { calls->push_back(status); };
  }

  // Holds the loop in a task until Release.
  void Hold() {
    loop_->PostControl([this](const absl::Status&) {
      held_.set_value();
      go_.get_future().wait();
    });
    held_.get_future().wait();
  }
  void Release() { go_.set_value(); }

  // Returns when the loop has come past everything posted before. Twice, because a turn runs its
  // control tasks before its training calls.
  void Sync() {
    for (int turn = 0; turn < 2; ++turn) {
      std::promise<void> done;
      loop_->PostControl([&](const absl::Status&) { done.set_value(); });
      done.get_future().wait();
    }
  }

  static void ExpectAllUnavailable(const Calls& calls, size_t count) {
    ASSERT_EQ(calls.size(), count);
    for (const absl::Status& status : calls) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    }
  }

  std::unique_ptr<EngineCore> core_;
  std::unique_ptr<Loop> loop_;
  std::promise<void> held_;
  std::promise<void> go_;
};

// A job of one sample that notes its end.
class OneToken final : public Job {
 public:
  explicit OneToken(Calls* ends) : ends_(ends) {}
  int64_t sequence_count() const override { return 1; }
  Sequence MakeSequence(int64_t) override {
    Sequence sequence;
    sequence.tokens = {5};
    sequence.runnable = sequence.positions_max = sequence.chunk_max = 1;
    return sequence;
  }
  void OnStart(const WeightsState&) override {}
  void WantLogits(const Sequence&, int64_t, int64_t, int64_t row,
                  std::vector<LogitsRow>* wanted) const override {
    wanted->emplace_back().row = static_cast<int32_t>(row);
  }
  std::string NameOf(const Sequence&) const override { return "sequence"; }
  absl::StatusOr<bool> OnResults(Sequence&, int64_t, absl::Span<const LogitsResult>) override {
    return true;
  }
  void OnStepEnd() override {}
  void OnDone(const absl::Status& status) override { ends_->push_back(status); }

 private:
  Calls* const ends_;
};

TEST_F(LoopTest, TasksRunInOrderOfTheirLine) {
  std::vector<int> control;
  std::vector<int> training;
  Hold();
  for (int i = 0; i < 3; ++i) {
    loop_->PostControl([&, i](const absl::Status& status) {
      EXPECT_TRUE(status.ok());
      control.push_back(i);
    });
    ASSERT_TRUE(loop_
                    ->PostTraining([&, i](const absl::Status& status) {
                      EXPECT_TRUE(status.ok());
                      EXPECT_EQ(control.size(), 3u);  // control tasks do not wait for training
                      training.push_back(i);
                    })
                    .ok());
  }
  Release();
  for (int i = 0; i < 4; ++i) Sync();  // a training call a turn
  EXPECT_EQ(control, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(training, (std::vector<int>{0, 1, 2}));
}

TEST_F(LoopTest, LinesAreBoundedEachByItself) {
  Calls requests;
  Calls training;
  Calls control;
  Hold();
  for (int i = 0; i < kQueueDepthMax; ++i) {
    EXPECT_TRUE(loop_->PostRequest(NoteIn(&requests)).ok());
    EXPECT_TRUE(loop_->PostTraining(NoteIn(&training)).ok());
  }
  for (const absl::Status& status :
       {loop_->PostRequest(NoteIn(&requests)), loop_->PostTraining(NoteIn(&training))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("queue_depth_max: 3"), std::string::npos) << status;
  }
  for (int i = 0; i < 3 * kQueueDepthMax; ++i) loop_->PostControl(NoteIn(&control));
  Release();
  for (int i = 0; i <= kQueueDepthMax; ++i) Sync();
  EXPECT_EQ(requests, Calls(kQueueDepthMax, absl::OkStatus()));
  EXPECT_EQ(training, Calls(kQueueDepthMax, absl::OkStatus()));
  EXPECT_EQ(control, Calls(3 * kQueueDepthMax, absl::OkStatus()));
  // There is room again.
  EXPECT_TRUE(loop_->PostRequest(NoteIn(&requests)).ok());
  EXPECT_TRUE(loop_->PostTraining(NoteIn(&training)).ok());
  loop_.reset();
}

TEST_F(LoopTest, JobsThatWaitCountAgainstTheLine) {
  Calls ends;
  Hold();
  for (int i = 0; i < kQueueDepthMax; ++i) {
    ASSERT_TRUE(loop_
                    ->PostRequest([&, i](const absl::Status& status) {
                      ASSERT_TRUE(status.ok());
                      core_->batcher().Add(i, std::make_unique<OneToken>(&ends));
                      if (i + 1 < kQueueDepthMax) return;
                      // Not yet admitted, and in nobody's snapshot: the line is full all the same.
                      EXPECT_EQ(loop_->PostRequest([](const absl::Status&) {}).code(),
                                absl::StatusCode::kResourceExhausted);
                    })
                    .ok());
  }
  Release();
  for (int i = 0; i <= kQueueDepthMax; ++i) Sync();  // a micro-batch a turn
  EXPECT_EQ(ends, Calls(kQueueDepthMax, absl::OkStatus()));
  EXPECT_TRUE(loop_->PostRequest([](const absl::Status&) {}).ok());
}

TEST_F(LoopTest, StopAnswersEverythingOnceWithUnavailable) {
  Calls requests;
  Calls training;
  Calls control;
  Calls jobs;
  loop_->PostControl([&](const absl::Status&) {
    core_->batcher().Add(1, std::make_unique<OneToken>(&jobs));
    held_.set_value();
    go_.get_future().wait();
  });
  held_.get_future().wait();
  ASSERT_TRUE(loop_->PostRequest(NoteIn(&requests)).ok());
  ASSERT_TRUE(loop_->PostTraining(NoteIn(&training)).ok());
  ASSERT_TRUE(loop_->PostTraining(NoteIn(&training)).ok());
  loop_->PostControl(NoteIn(&control));
  loop_->Stop();
  Release();
  Sync();
  ExpectAllUnavailable(requests, 1);
  ExpectAllUnavailable(training, 2);
  ExpectAllUnavailable(control, 1);
  // The turn that was under way came to its end; nothing is left.
  ASSERT_EQ(jobs.size(), 1u);

  // From now on: refused at the door, except what must get through.
  EXPECT_EQ(loop_->PostRequest(NoteIn(&requests)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(loop_->PostTraining(NoteIn(&training)).code(), absl::StatusCode::kUnavailable);
  loop_->PostControl(NoteIn(&control));
  loop_.reset();
  EXPECT_EQ(requests.size(), 1u);
  EXPECT_EQ(training.size(), 2u);
  ExpectAllUnavailable(control, 2);
}

TEST_F(LoopTest, DestructionRunsWhatIsQueued) {
  Calls control;
  Hold();
  loop_->PostControl(NoteIn(&control));
  std::thread destroyer([this] { loop_.reset(); });
  Release();
  destroyer.join();
  EXPECT_EQ(control.size(), 1u);
}

// The pipeline fails in the turn that would have run a training call.
TEST_F(LoopTest, AFailedPipelineEndsJobsAndTasksWithItsReason) {
  Calls jobs;
  Calls training;
  Hold();
  loop_->PostControl([&](const absl::Status&) {
    InferencePlan unknown;
    unknown.weight_version = 99;
    EXPECT_TRUE(core_->pipeline().Submit(unknown).ok());
    EXPECT_FALSE(core_->pipeline().NextInference().ok());
    core_->batcher().Add(1, std::make_unique<OneToken>(&jobs));
  });
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(loop_->PostTraining(NoteIn(&training)).ok());
  Release();
  Sync();
  Sync();
  ExpectAllUnavailable(jobs, 1);
  ExpectAllUnavailable(training, 2);
  EXPECT_NE(training[0].message().find("weight version 99"), std::string::npos) << training[0];
  EXPECT_EQ(loop_->PostRequest(NoteIn(&training)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(loop_->PostTraining(NoteIn(&training)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(LoopTest, TheSnapshotIsOfTheCoreAsItIs) {
  const LoopSnapshot before = loop_->snapshot();
  EXPECT_EQ(before.weights.weight_version, 0u);
  EXPECT_EQ(before.weights_digest, core_->trainer().weights_digest());
  EXPECT_EQ(before.kv_pages_in_use, 0);
  loop_->PostControl([&](const absl::Status&) {
    core_->versions().Pin();
    loop_->UpdateSnapshot();
    EXPECT_EQ(loop_->snapshot().pinned_weight_versions, 0);  // current, not retired
    core_->versions().Unpin(0);
  });
  Sync();
}

}  // namespace
}  // namespace lockstep
