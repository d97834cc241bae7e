// Goal: data are cut and packed without a change: order, rows, pages and defaults. Method: by hand.
#include "core/train/micro_batches.h"

#include <cmath>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

Datum OfLength(int64_t length, int32_t first_token = 10) {
  Datum datum;
  for (int64_t i = 0; i < length; ++i) {
    datum.model_input.push_back(first_token + static_cast<int32_t>(i));
    datum.target_tokens.push_back(first_token + static_cast<int32_t>(i) + 1);
  }
  return datum;
}

TEST(MicroBatchesTest, CutsInOrderAndTheLastIsShorter) {
  std::vector<Datum> data;
  for (int64_t length = 1; length <= 5; ++length) data.push_back(OfLength(length));
  const std::vector<TrainingMicroBatch> cut = MakeMicroBatches(data, 2, 8);
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_EQ(cut[0].datum_begins, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(cut[1].datum_begins, (std::vector<int64_t>{0, 3, 7}));
  EXPECT_EQ(cut[2].datum_begins, (std::vector<int64_t>{0, 5}));
}

TEST(MicroBatchesTest, PacksWholeDataFromPositionZeroInPagesOfTheirOwn) {
  const std::vector<Datum> data = {OfLength(17, 100), OfLength(1, 200), OfLength(8, 300)};
  const std::vector<TrainingMicroBatch> cut = MakeMicroBatches(data, 8, 8);
  ASSERT_EQ(cut.size(), 1u);
  const TokenBatch& batch = cut[0].batch;
  EXPECT_EQ(batch.row_count(), 26);
  ASSERT_EQ(batch.sequences.size(), 3u);
  EXPECT_EQ(batch.sequences[0].pages, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(batch.sequences[1].pages, (std::vector<int32_t>{3}));
  EXPECT_EQ(batch.sequences[2].pages, (std::vector<int32_t>{4}));
  for (const SequenceSlice& sequence : batch.sequences) EXPECT_EQ(sequence.first_position, 0);
  EXPECT_EQ(batch.sequences[2].row_begin, 18);
  EXPECT_EQ(batch.positions[18], 0);
  EXPECT_EQ(batch.tokens[25], 307);
}

TEST(MicroBatchesTest, FillsInWhatIsNotGiven) {
  Datum datum = OfLength(3);
  datum.sampling.temperature = 0.5f;
  const TrainingMicroBatch plain = MakeMicroBatches({datum}, 1, 8).at(0);
  const TokenLossInputs& in = plain.loss_inputs;
  EXPECT_EQ(in.temperature, std::vector<float>(3, 0.5f));
  EXPECT_EQ(in.target, (std::vector<int32_t>{11, 12, 13}));
  EXPECT_EQ(in.mask, std::vector<float>(3, 1));
  EXPECT_EQ(in.weight, std::vector<float>(3, 1));
  EXPECT_EQ(in.advantage, std::vector<float>(3, 0));
  ASSERT_EQ(in.old_logprob.size(), 3u);
  EXPECT_TRUE(std::isnan(in.old_logprob[1]));
}

TEST(MicroBatchesTest, MaskedPositionsHaveNoTarget) {
  Datum datum = OfLength(3);
  datum.mask = {0, 1, 0};
  datum.target_tokens[0] = -7;
  datum.weights = {1, 2, 3};
  datum.logprobs = {-1, -2, -3};
  datum.advantages = {4, 5, 6};
  const TrainingMicroBatch masked = MakeMicroBatches({datum}, 1, 8).at(0);
  const TokenLossInputs& in = masked.loss_inputs;
  EXPECT_EQ(in.target, (std::vector<int32_t>{-1, 12, -1}));
  EXPECT_EQ(in.mask, datum.mask);
  EXPECT_EQ(in.weight, datum.weights);
  EXPECT_EQ(in.old_logprob, datum.logprobs);
  EXPECT_EQ(in.advantage, datum.advantages);
}

TEST(MicroBatchesTest, RowsAreLimitedWhateverTheSizeAskedFor) {
  std::vector<Datum> data(5, OfLength(kMicroBatchRowsMax / 2));
  data.push_back(OfLength(kMicroBatchRowsMax + 1));  // alone, since a datum is never cut
  data.push_back(OfLength(1));
  std::vector<int64_t> rows;
  for (const TrainingMicroBatch& micro_batch : MakeMicroBatches(data, 1 << 20, 8)) {
    rows.push_back(micro_batch.batch.row_count());
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{kMicroBatchRowsMax, kMicroBatchRowsMax,
                                        kMicroBatchRowsMax / 2, kMicroBatchRowsMax + 1, 1}));
}

TEST(MicroBatchesTest, NoDataNoMicroBatches) { EXPECT_TRUE(MakeMicroBatches({}, 4, 8).empty()); }

}  // namespace
}  // namespace lockstep
