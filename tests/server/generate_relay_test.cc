// Goal: whatever the speed of the reader, every token arrives once and in order, one write is under
// way at a time, the stream is finished once and last, and nothing is kept beyond the request's
// tokens. Method: a sink whose writes end when the test says so.
#include "server/generate_relay.h"

#include <thread>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

class FakeSink : public GenerateSink {
 public:
  void StartWrite(const v1::GenerateResponse& message) override {
    EXPECT_FALSE(is_writing) << "two writes at a time";
    EXPECT_FALSE(finish.has_value()) << "a write after the end";
    is_writing = true;
    messages.push_back(message);
  }
  void Finish(const absl::Status& status) override {
    EXPECT_FALSE(is_writing) << "an end during a write";
    EXPECT_FALSE(finish.has_value()) << "two ends";
    finish = status;
  }
  void EndWrite(GenerateRelay& relay, bool ok = true) {
    is_writing = false;
    relay.OnWriteDone(ok);
  }

  std::vector<v1::GenerateResponse> messages;
  absl::optional<absl::Status> finish;
  bool is_writing = false;
};

SampleDelta Delta(int32_t sample, int32_t token, FinishReason reason = FinishReason::kNone) {
  return {.sample_index = sample,
          .tokens = {token},
          .logprobs = {-1},
          .raw_logprobs = {-2},
          .finish_reason = reason};
}

std::vector<int> Tokens(const v1::SampleDelta& delta) {
  return {delta.token_ids().begin(), delta.token_ids().end()};
}

GenerateHeader Header() {
  GenerateHeader header;
  header.seed_used = 42;
  header.weights.numerics_id = "fp32";
  return header;
}

TEST(GenerateRelayTest, FastReaderGetsAMessageAStep) {
  FakeSink sink;
  GenerateRelay relay("id", 5, &sink);
  relay.OnStart(Header());
  EXPECT_TRUE(sink.messages.empty()) << "the header goes with the first tokens";
  relay.OnDeltas({Delta(0, 10), Delta(1, 20)});
  sink.EndWrite(relay);
  relay.OnDeltas({Delta(0, 11, FinishReason::kLength), Delta(1, 21, FinishReason::kLength)});
  sink.EndWrite(relay);
  relay.OnDone(absl::OkStatus());
  EXPECT_FALSE(sink.finish.has_value()) << "the summary is still being written";
  sink.EndWrite(relay);
  EXPECT_TRUE(sink.finish->ok());

  ASSERT_EQ(sink.messages.size(), 3u);
  for (const auto& message : sink.messages) EXPECT_EQ(message.request_id(), "id");
  EXPECT_EQ(sink.messages[0].header().seed_used(), 42u);
  EXPECT_EQ(sink.messages[0].header().weights().numerics_id(), "fp32");
  EXPECT_EQ(sink.messages[0].deltas_size(), 2);
  EXPECT_FALSE(sink.messages[0].has_done());
  EXPECT_FALSE(sink.messages[1].has_header());
  EXPECT_EQ(sink.messages[1].deltas(1).finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(sink.messages[2].deltas_size(), 0);
  EXPECT_EQ(sink.messages[2].done().prompt_tokens(), 5);
  EXPECT_EQ(sink.messages[2].done().generated_tokens(), 4);
}

TEST(GenerateRelayTest, SlowReaderGetsMergedSteps) {
  FakeSink sink;
  GenerateRelay relay("id", 1, &sink);
  relay.OnStart(Header());
  relay.OnDeltas({Delta(7, 0)});
  for (int i = 1; i < 100; ++i) {
    std::vector<SampleDelta> deltas = {Delta(7, i)};
    if (i % 2 == 0) deltas.insert(deltas.begin(), Delta(3, 1000 + i));
    relay.OnDeltas(std::move(deltas));
  }
  relay.OnDone(absl::OkStatus());
  EXPECT_EQ(sink.messages.size(), 1u);
  sink.EndWrite(relay);
  sink.EndWrite(relay);
  ASSERT_EQ(sink.messages.size(), 2u) << "99 steps in one message, and the summary with them";
  EXPECT_TRUE(sink.finish->ok());
  const v1::GenerateResponse& merged = sink.messages[1];
  ASSERT_EQ(merged.deltas_size(), 2) << "one entry a sample";
  EXPECT_EQ(merged.deltas(0).sample_index(), 7);
  EXPECT_EQ(merged.deltas(0).token_ids_size(), 99);
  EXPECT_EQ(merged.deltas(0).logprobs_size(), 99);
  EXPECT_EQ(merged.deltas(0).raw_logprobs_size(), 99);
  for (int i = 1; i < 100; ++i) EXPECT_EQ(merged.deltas(0).token_ids(i - 1), i);
  EXPECT_EQ(merged.deltas(1).sample_index(), 3);
  EXPECT_EQ(Tokens(merged.deltas(1)).front(), 1002);
  EXPECT_EQ(merged.done().generated_tokens(), 149);
}

TEST(GenerateRelayTest, ErrorComesAfterTheTokensAndWithoutASummary) {
  FakeSink sink;
  GenerateRelay relay("id", 1, &sink);
  relay.OnDeltas({Delta(0, 1)});
  relay.OnDeltas({Delta(0, 2, FinishReason::kAborted)});
  relay.OnDone(absl::DeadlineExceededError("too late"));
  sink.EndWrite(relay);
  ASSERT_EQ(sink.messages.size(), 2u);
  EXPECT_FALSE(sink.finish.has_value());
  EXPECT_EQ(sink.messages[1].deltas(0).finish_reason(), v1::FINISH_REASON_ABORTED);
  EXPECT_FALSE(sink.messages[1].has_done());
  sink.EndWrite(relay);
  EXPECT_EQ(sink.finish->message(), "too late");
}

TEST(GenerateRelayTest, EndBeforeAdmission) {
  FakeSink sink;
  GenerateRelay relay("id", 1, &sink);
  relay.OnDone(absl::UnavailableError("stopping"));
  EXPECT_TRUE(sink.messages.empty());
  EXPECT_EQ(sink.finish->code(), absl::StatusCode::kUnavailable);
}

TEST(GenerateRelayTest, NothingIsWrittenToAReaderThatIsGone) {
  FakeSink sink;
  GenerateRelay relay("id", 1, &sink);
  relay.OnDeltas({Delta(0, 1)});
  relay.OnDeltas({Delta(0, 2)});
  sink.EndWrite(relay, /*ok=*/false);
  relay.OnDeltas({Delta(0, 3)});
  EXPECT_EQ(sink.messages.size(), 1u);
  EXPECT_FALSE(sink.finish.has_value()) << "the engine still holds the request";
  relay.OnDone(absl::CancelledError("gone"));
  EXPECT_EQ(sink.messages.size(), 1u);
  EXPECT_EQ(sink.finish->code(), absl::StatusCode::kCancelled);
}

TEST(GenerateRelayTest, WritesThatEndOnAnotherThread) {
  // The sink hands each write to a second thread, which ends it.
  class ThreadedSink : public GenerateSink {
   public:
    void StartWrite(const v1::GenerateResponse& message) override {
      MutexLock lock(mu);
      for (const auto& delta : message.deltas()) {
        for (int token : delta.token_ids()) tokens.push_back(token);
      }
      pending = true;
      changed.Signal();
    }
    void Finish(const absl::Status&) override {
      MutexLock lock(mu);
      finished = true;
      changed.Signal();
    }

    Mutex mu;
    CondVar changed;
    std::vector<int> tokens;
    bool pending = false;
    bool finished = false;
  };
  constexpr int kTokens = 20000;
  ThreadedSink sink;
  GenerateRelay relay("id", 1, &sink);
  std::thread writer([&] {
    while (true) {
      {
        MutexLock lock(sink.mu);
        while (!sink.pending && !sink.finished) sink.changed.Wait(sink.mu);
        if (sink.finished) return;
        sink.pending = false;
      }
      relay.OnWriteDone(true);
    }
  });
  relay.OnStart(Header());
  for (int i = 0; i < kTokens; ++i) relay.OnDeltas({Delta(0, i)});
  relay.OnDone(absl::OkStatus());
  writer.join();
  ASSERT_EQ(sink.tokens.size(), static_cast<size_t>(kTokens));
  for (int i = 0; i < kTokens; ++i) ASSERT_EQ(sink.tokens[i], i);
}

}  // namespace
}  // namespace lockstep
