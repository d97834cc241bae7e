// Goal: who gets how many rows. Method: cases by hand, then properties over many random loads, then
// a run of steps in which nobody may wait for ever.
#include "core/generate/step_policy.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "core/model/philox.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using Loads = std::vector<SequenceLoad>;
using Rows = std::vector<int64_t>;

constexpr int64_t kMany = 1000;

const SequenceLoad kDecode{1, 64};
SequenceLoad Prefill(int64_t remaining, int64_t chunk_max = 64) { return {remaining, chunk_max}; }

TEST(StepPolicyTest, DecodesGoFirstAndPrefillTakesWhatIsLeft) {
  EXPECT_EQ(PlanRows(Loads{Prefill(100), kDecode, kDecode, Prefill(5)}, 20, kMany),
            (Rows{18, 1, 1, 0}));
}

TEST(StepPolicyTest, PrefillIsCutByItsChunkAndInOrderOfWaiting) {
  EXPECT_EQ(PlanRows(Loads{Prefill(100, 7), Prefill(3, 7), Prefill(50, 64)}, 40, kMany),
            (Rows{7, 3, 30}));
  EXPECT_EQ(PlanRows(Loads{Prefill(100, 1), Prefill(100, 1)}, 40, kMany), (Rows{1, 1}));
}

TEST(StepPolicyTest, OneRowIsKeptForPrefill) {
  EXPECT_EQ(PlanRows(Loads{kDecode, kDecode, kDecode, Prefill(9)}, 3, kMany), (Rows{1, 1, 0, 1}));
  EXPECT_EQ(PlanRows(Loads{kDecode, kDecode, kDecode}, 3, kMany), (Rows{1, 1, 1}));
}

TEST(StepPolicyTest, ASingleRowGoesToWhoeverWaitsLongest) {
  EXPECT_EQ(PlanRows(Loads{kDecode, Prefill(9)}, 1, kMany), (Rows{1, 0}));
  EXPECT_EQ(PlanRows(Loads{Prefill(9), kDecode}, 1, kMany), (Rows{1, 0}));
}

TEST(StepPolicyTest, SequencesAreLimitedToTheLongestWaiting) {
  EXPECT_EQ(PlanRows(Loads{kDecode, Prefill(4), kDecode, kDecode}, 100, 2), (Rows{1, 4}));
}

TEST(StepPolicyTest, NoLoadsNoRows) {
  EXPECT_TRUE(PlanRows(Loads{}, 10, 10).empty());
  EXPECT_TRUE(PlanRows(Loads{}, 1, 10).empty());
}

TEST(StepPolicyTest, BudgetsHoldAndSomethingAlwaysRuns) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const auto draw = [&](uint64_t place, int64_t below) {
      return static_cast<int64_t>(PhiloxUniform(seed, place, 0) * static_cast<double>(below));
    };
    Loads loads;
    for (int64_t i = 0; i < 1 + draw(0, 20); ++i) {
      const bool decode = draw(10 + i, 2) == 0;
      loads.push_back(decode ? kDecode : Prefill(2 + draw(50 + i, 90), 1 + draw(90 + i, 70)));
    }
    const int64_t tokens_max = 1 + draw(1, 64);
    const int64_t sequences_max = 1 + draw(2, 20);
    const Rows rows = PlanRows(loads, tokens_max, sequences_max);
    ASSERT_LE(rows.size(), loads.size());
    ASSERT_LE(rows.size(), static_cast<size_t>(sequences_max));
    const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    EXPECT_LE(total, tokens_max);
    EXPECT_GE(total, 1);
    int64_t wanted = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t limit = std::min(loads[i].remaining, loads[i].chunk_max);
      EXPECT_GE(rows[i], 0);
      EXPECT_LE(rows[i], limit);
      wanted += limit;
    }
    // Nothing is left idle that somebody could use.
    EXPECT_EQ(total, std::min(wanted, tokens_max)) << "seed " << seed;
  }
}

// Decodes that never end and a new long prompt whenever one is through: both go on under every
// budget.
TEST(StepPolicyTest, NobodyStarves) {
  for (const int64_t tokens_max : {1, 2, 3, 8}) {
    struct Waiting {
      SequenceLoad load;
      bool decode;
    };
    std::deque<Waiting> line;
    for (int i = 0; i < 5; ++i) line.push_back({kDecode, true});
    line.push_back({Prefill(10), false});
    int64_t decode_rows = 0;
    int64_t prefill_rows = 0;
    for (int step = 0; step < 400; ++step) {
      Loads loads;
      for (const Waiting& waiting : line) loads.push_back(waiting.load);
      const Rows rows = PlanRows(loads, tokens_max, kMany);
      std::deque<Waiting> left_out;
      std::deque<Waiting> ran;
      for (size_t i = 0; i < line.size(); ++i) {
        Waiting& waiting = line[i];
        (rows[i] > 0 ? ran : left_out).push_back(waiting);
        if (waiting.decode) {
          decode_rows += rows[i];
        } else if (rows[i] > 0) {
          prefill_rows += rows[i];
          int64_t& remaining = ran.back().load.remaining;
          remaining -= rows[i];
          if (remaining == 0) remaining = 10;
        }
      }
      line = std::move(left_out);
      line.insert(line.end(), ran.begin(), ran.end());
    }
    EXPECT_GE(decode_rows, 300) << tokens_max;
    EXPECT_GE(prefill_rows, 60) << tokens_max;
  }
}

}  // namespace
}  // namespace lockstep
