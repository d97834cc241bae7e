// Goal: a call is applied once, answered the same again, and never skipped (field note B 15).
// Method: calls in every order, with small limits.
#include "core/train/run_ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

Sha256Digest Payload(const std::string& text) { return Sha256Of(text); }

StoredAnswer Answer(double grad_norm) {
  OptimStepResult result;
  result.metrics.grad_norm = grad_norm;
  return result;
}

// Applies a call that must be new.
void Apply(RunLedger& ledger, const CallId& call, const std::string& payload, double answer) {
  const auto found = ledger.Find(call, Payload(payload));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(*found, nullptr);
  ledger.Record(call, Payload(payload), Answer(answer));
}

TEST(RunLedgerTest, TheSameCallGetsTheStoredAnswer) {
  RunLedger ledger(4);
  Apply(ledger, {"a", 1}, "one", 1.5);
  Apply(ledger, {"a", 2}, "two", 2.5);
  for (int again = 0; again < 2; ++again) {
    const auto first = ledger.Find({"a", 1}, Payload("one"));
    ASSERT_TRUE(first.ok());
    ASSERT_NE(*first, nullptr);
    EXPECT_EQ(std::get<OptimStepResult>(**first).metrics.grad_norm, 1.5);
    EXPECT_EQ(std::get<OptimStepResult>(**ledger.Find({"a", 2}, Payload("two"))).metrics.grad_norm,
              2.5);
  }
}

TEST(RunLedgerTest, AnotherPayloadUnderTheSameIdAlreadyExists) {
  RunLedger ledger(4);
  Apply(ledger, {"a", 1}, "one", 1);
  const absl::Status status = ledger.Find({"a", 1}, Payload("other")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(status.message().find("expected 2"), std::string::npos) << status;
}

TEST(RunLedgerTest, AGapNamesTheIdExpected) {
  RunLedger ledger(4);
  const absl::Status first = ledger.Find({"a", 2}, Payload("x")).status();
  EXPECT_EQ(first.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(first.message().find("expected 1"), std::string::npos) << first;
  Apply(ledger, {"a", 1}, "one", 1);
  const absl::Status second = ledger.Find({"a", 7}, Payload("x")).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(second.message().find("seq_id: 7"), std::string::npos) << second;
  EXPECT_NE(second.message().find("expected 2"), std::string::npos) << second;
}

TEST(RunLedgerTest, ACallThatWasNotAppliedConsumesNoId) {
  RunLedger ledger(4);
  ASSERT_EQ(*ledger.Find({"a", 1}, Payload("fails")), nullptr);
  Apply(ledger, {"a", 1}, "works", 1);
}

TEST(RunLedgerTest, RunsAreIndependent) {
  RunLedger ledger(4);
  Apply(ledger, {"a", 1}, "one", 1);
  Apply(ledger, {"b", 1}, "other", 10);
  Apply(ledger, {"a", 2}, "two", 2);
  EXPECT_EQ(std::get<OptimStepResult>(**ledger.Find({"b", 1}, Payload("other"))).metrics.grad_norm,
            10);
}

TEST(RunLedgerTest, OldAnswersGoAndSayWhatIsExpected) {
  RunLedger ledger(2);
  for (uint64_t seq = 1; seq <= 4; ++seq) Apply(ledger, {"a", seq}, absl::StrCat(seq), 1);
  const absl::Status status = ledger.Find({"a", 2}, Payload("2")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("no longer kept"), std::string::npos) << status;
  EXPECT_NE(status.message().find("expected 5"), std::string::npos) << status;
  EXPECT_NE(*ledger.Find({"a", 3}, Payload("3")), nullptr);
  EXPECT_NE(*ledger.Find({"a", 4}, Payload("4")), nullptr);
}

TEST(RunLedgerTest, RunsAreLimited) {
  RunLedger ledger(1);
  for (int64_t run = 0; run < RunLedger::kRunsMax; ++run) {
    Apply(ledger, {absl::StrCat("run", run), 1}, "one", 1);
  }
  const absl::Status status = ledger.Find({"one too many", 1}, Payload("one")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1024"), std::string::npos) << status;
  // Those that are known go on.
  Apply(ledger, {"run7", 2}, "two", 2);
}

TEST(RunLedgerTest, RefusesToRecordOutOfOrder) {
  RunLedger ledger(1);
  EXPECT_DEATH(ledger.Record({"a", 2}, Payload("x"), Answer(1)), "seq_id");
}

}  // namespace
}  // namespace lockstep
