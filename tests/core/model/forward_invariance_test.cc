// Goal: a row's logits depend on the weights and the row's own prefix alone (promise P1 of the
// design): not on company, place in the batch, chunking, page size, stages, threads or backend.
// Method: one sequence computed alone in one piece by the reference kernels is the expectation; the
// same sequence computed in every other way must give the same bits. Every kind of variation has a
// planted fault of the kind met in the field (split-K chosen from the row count, an extra rounding
// in large batches, a stale page) that must turn the comparison red.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/core/model/model_runner.h"
#include "tests/support/forwarding_kernels.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::InstructionSet;
using kernels::Profile;

constexpr uint64_t kWeightsSeed = 11;
constexpr int64_t kLength = 150;  // past a block of 128 keys

const kernels::Kernels& Scalar() { return KernelsOf(InstructionSet::kScalar, Profile::kFp32); }

void Fill(OptimizerState& state) { FillTinyWeights(kWeightsSeed, state); }

ModelRunner MakeRunner(const kernels::Kernels& kernels, const ModelRunner::Options& options = {},
                       TinyFamily family = TinyFamily::kTied) {
  return ModelRunner(TinyModelConfig(family), kernels, options, Fill);
}

const std::vector<int32_t>& Sequence() {
  // The last token of the vocabulary is left to the rows of NaN.
  static const auto* const kTokens =
      new std::vector<int32_t>(TinyTokens(5, kLength, kTinyVocabSize - 1));
  return *kTokens;
}

// All of a sequence in chunks, through the same pages.
std::vector<float> InChunks(ModelRunner& runner, const std::vector<int32_t>& tokens, int64_t chunk,
                            int64_t page_size, int32_t first_page = 0) {
  const int64_t length = static_cast<int64_t>(tokens.size());
  const std::vector<int32_t> pages = PagesFrom(first_page, length, page_size);
  std::vector<float> logits;
  for (int64_t begin = 0; begin < length; begin += chunk) {
    TokenBatch batch;
    batch.Append(tokens.data() + begin, std::min(chunk, length - begin), begin, pages);
    const std::vector<float> rows = runner.Logits(batch);
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

std::vector<float> InOnePiece(ModelRunner& runner, int64_t page_size = 16) {
  return InChunks(runner, Sequence(), kLength, page_size);
}

// What every other way must give.
const std::vector<float>& Expected(TinyFamily family = TinyFamily::kTied,
                                   Profile profile = Profile::kFp32) {
  static auto* const kLogits = new std::map<std::pair<TinyFamily, Profile>, std::vector<float>>;
  std::vector<float>& logits = (*kLogits)[{family, profile}];
  if (logits.empty()) {
    ModelRunner runner = MakeRunner(KernelsOf(InstructionSet::kReference, profile), {}, family);
    logits = InOnePiece(runner);
  }
  return logits;
}

// The sequence as a batch's rows [first, first + kLength), beside other sequences.
std::vector<float> RowsOfSequence(const std::vector<float>& logits, int64_t first) {
  const auto begin = logits.begin() + first * kTinyVocabSize;
  return {begin, begin + kLength * kTinyVocabSize};
}

// A batch of sequences of these lengths (0 stands for the sequence under test) and its logits.
std::vector<float> AmongOthers(ModelRunner& runner, const std::vector<int64_t>& lengths,
                               int32_t token_end) {
  TokenBatch batch;
  int32_t next_page = 0;
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool under_test = lengths[i] == 0;
    if (under_test) first = batch.row_count();
    const std::vector<int32_t> tokens =
        under_test ? Sequence() : TinyTokens(100 + i, lengths[i], token_end);
    const int64_t length = static_cast<int64_t>(tokens.size());
    batch.Append(tokens.data(), length, 0, PagesFrom(next_page, length, 16));
    next_page += static_cast<int32_t>(batch.sequences.back().pages.size());
  }
  return RowsOfSequence(runner.Logits(batch), first);
}

class ForwardInvarianceTest : public testing::TestWithParam<std::tuple<InstructionSet, Profile>> {
 protected:
  void SetUp() override { LOCKSTEP_SKIP_UNLESS_SUPPORTED(std::get<0>(GetParam())); }
  const kernels::Kernels& Backend() const {
    return KernelsOf(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
  // Of the profile under test.
  const std::vector<float>& Expected(TinyFamily family = TinyFamily::kTied) const {
    return lockstep::Expected(family, std::get<1>(GetParam()));
  }
};

TEST_P(ForwardInvarianceTest, LogitsAreWorthComparing) {
  const std::vector<float>& logits = Expected();
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  EXPECT_GT(*high - *low, 2.0f);
  for (const TinyFamily family : kTinyFamilies) {
    if (family == TinyFamily::kTied) continue;
    EXPECT_FALSE(SameBits(Expected(), Expected(family))) << Name(family);
  }
}

TEST_P(ForwardInvarianceTest, Backend) {
  for (const TinyFamily family : kTinyFamilies) {
    ModelRunner runner = MakeRunner(Backend(), {}, family);
    EXPECT_TRUE(SameBits(InOnePiece(runner), Expected(family)));
  }
}

TEST_P(ForwardInvarianceTest, ChunkSize) {
  for (int64_t chunk : {1, 5, 16, 64, 149}) {
    ModelRunner runner = MakeRunner(Backend());
    EXPECT_TRUE(SameBits(InChunks(runner, Sequence(), chunk, 16), Expected())) << chunk;
  }
}

TEST_P(ForwardInvarianceTest, PageSizeAndPageIds) {
  for (int64_t page_size : {8, 16, 32, 64, 128}) {
    ModelRunner runner = MakeRunner(Backend(), {.page_size = page_size});
    EXPECT_TRUE(SameBits(InChunks(runner, Sequence(), 7, page_size, 3), Expected())) << page_size;
  }
  // Pages in no order.
  ModelRunner runner = MakeRunner(Backend());
  std::vector<int32_t> pages = PagesFrom(0, kLength, 16);
  std::reverse(pages.begin(), pages.end());
  TokenBatch batch;
  batch.Append(Sequence().data(), kLength, 0, pages);
  EXPECT_TRUE(SameBits(runner.Logits(batch), Expected()));
}

TEST_P(ForwardInvarianceTest, CompanyAndRowPosition) {
  const std::vector<std::vector<int64_t>> companies = {
      {0, 1}, {1, 0}, {5, 0, 37}, {3, 3, 3, 0}, {130, 1, 0, 64, 2}};
  for (const std::vector<int64_t>& company : companies) {
    ModelRunner runner = MakeRunner(Backend());
    EXPECT_TRUE(SameBits(AmongOthers(runner, company, kTinyVocabSize), Expected()))
        << company.size() << " sequences";
  }
}

TEST_P(ForwardInvarianceTest, OtherRowsOfNaN) {
  // The embedding of the last token is NaN; the head is another tensor, or every row had a NaN.
  ModelRunner runner(TinyModelConfig(false), Backend(), {}, [](OptimizerState& state) {
    Fill(state);
    const int64_t hidden = state.params()[0].cols;
    std::fill_n(state.master(0) + (kTinyVocabSize - 1) * hidden, hidden,
                std::numeric_limits<float>::quiet_NaN());
  });
  TokenBatch batch;
  const std::vector<int32_t> poison(20, kTinyVocabSize - 1);
  batch.Append(poison.data(), 20, 0, PagesFrom(0, 20, 16));
  batch.Append(Sequence().data(), kLength, 0, PagesFrom(2, kLength, 16));
  batch.Append(poison.data(), 20, 0, PagesFrom(12, 20, 16));
  const std::vector<float> logits = runner.Logits(batch);
  EXPECT_TRUE(logits[0] != logits[0]) << "the poison did not work";
  EXPECT_TRUE(SameBits(RowsOfSequence(logits, 20), Expected(TinyFamily::kUntied)));

  // And pages that poisoned sequences have left behind.
  TokenBatch again;
  again.Append(Sequence().data(), kLength, 0, PagesFrom(0, kLength, 16));
  EXPECT_TRUE(SameBits(runner.Logits(again), Expected(TinyFamily::kUntied)));
}

TEST_P(ForwardInvarianceTest, MixedPrefillAndDecodeRows) {
  // Four sequences advance together, each at its own pace; ours by 1, 2, 3, ... rows a step.
  ModelRunner runner = MakeRunner(Backend());
  const std::vector<int32_t> pages = PagesFrom(0, kLength, 16);
  const std::vector<int32_t> other = TinyTokens(6, 200);
  std::vector<float> logits;
  int64_t done = 0;
  for (int64_t step = 1; done < kLength; ++step) {
    TokenBatch batch;
    batch.Append(other.data() + step, 1, step, PagesFrom(20, 200, 16));
    const int64_t count = std::min(step, kLength - done);
    batch.Append(Sequence().data() + done, count, done, pages);
    batch.Append(other.data(), 11, 0, PagesFrom(40, 16, 16));
    const std::vector<float> rows = runner.Logits(batch);
    logits.insert(logits.end(), rows.begin() + kTinyVocabSize,
                  rows.begin() + (1 + count) * kTinyVocabSize);
    done += count;
  }
  EXPECT_TRUE(SameBits(logits, Expected()));
}

TEST_P(ForwardInvarianceTest, Threads) {
  for (int threads : {2, 3}) {
    ModelRunner runner = MakeRunner(Backend(), {.threads = threads});
    EXPECT_TRUE(SameBits(InOnePiece(runner), Expected())) << threads;
    ModelRunner decoding = MakeRunner(Backend(), {.threads = threads});
    EXPECT_TRUE(SameBits(InChunks(decoding, Sequence(), 1, 16), Expected())) << threads;
  }
}

TEST_P(ForwardInvarianceTest, Stages) {
  for (const TinyFamily family : kTinyFamilies) {
    for (int64_t stages : {2, 3}) {
      ModelRunner runner = MakeRunner(Backend(), {.stages = stages}, family);
      EXPECT_TRUE(SameBits(InChunks(runner, Sequence(), 40, 16), Expected(family))) << stages;
    }
  }
}

TEST_P(ForwardInvarianceTest, ChosenRowsOfTheHeadInAnyOrderAndNumber) {
  const ModelConfig config = TinyModelConfig(true);
  const RopeTables rope(config);
  kernels::Serial serial;
  const StageContext context = {
      &config, SplitStages(config, 1)[0], &Backend(), &serial, rope.cosine(), rope.sine()};
  OptimizerState state(config, context.range);
  Fill(state);
  const WeightView weights = {state.MakeWeights(Backend(), serial, 0)};
  KvArena kv(config, Backend().profile(), config.layer_count, 10, 16);
  Activations activations(Activations::Keep::kNothing, context);
  TokenBatch batch;
  batch.Append(Sequence().data(), kLength, 0, PagesFrom(0, kLength, 16));
  Buffer<float> hidden(kLength * config.hidden_size);
  Forward(context, weights, batch, kv, activations, hidden.data());

  Head head(context);
  std::vector<int32_t> rows(300);
  for (int i = 0; i < 300; ++i) rows[i] = (i * 61 + 7) % static_cast<int>(kLength);
  int64_t seen = 0;
  head.Logits(weights, hidden.data(), rows, [&](int64_t first, int64_t count, float* logits) {
    EXPECT_EQ(first, seen);
    EXPECT_LE(count, kHeadRows);
    seen += count;
    for (int64_t i = 0; i < count; ++i) {
      const absl::Span<const float> expected(Expected().data() + rows[first + i] * kTinyVocabSize,
                                             kTinyVocabSize);
      ASSERT_TRUE(SameBits({logits + i * kTinyVocabSize, kTinyVocabSize}, expected)) << first + i;
    }
  });
  EXPECT_EQ(seen, 300);
}

std::vector<std::tuple<InstructionSet, Profile>> Backends() {
  std::vector<std::tuple<InstructionSet, Profile>> backends;
  for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
    for (const InstructionSet set : kernels::InstructionSetsOf(profile)) {
      backends.emplace_back(set, profile);
    }
  }
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Backends, ForwardInvarianceTest, testing::ValuesIn(Backends()),
                         [](const auto& info) {
                           return absl::StrCat(
                               std::string(kernels::InstructionSetName(std::get<0>(info.param))),
                               "_", std::string(kernels::ProfileName(std::get<1>(info.param))));
                         });

TEST(ForwardProfileTest, ProfilesDiffer) {
  EXPECT_FALSE(SameBits(Expected(TinyFamily::kTied, Profile::kBf16),
                        Expected(TinyFamily::kTied, Profile::kFp32)));
}

// Planted faults.

// Split-K for few rows: the two halves of k are products of their own (field notes, A1).
class SplitKForFewRows : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void MatMul(Parallel& p, const float* x, int64_t m, const PackedMatrix& w,
              float* y) const override {
    ForwardingKernels::MatMul(p, x, m, w, y);
    if (m > 4) return;
    const int64_t half = w.k / 2;
    std::vector<float> x_low(x, x + m * w.k);
    std::vector<float> x_high = x_low;
    for (int64_t i = 0; i < m * w.k; ++i) (i % w.k < half ? x_high : x_low)[i] = 0;
    std::vector<float> y_high(m * w.n);
    ForwardingKernels::MatMul(p, x_low.data(), m, w, y);
    ForwardingKernels::MatMul(p, x_high.data(), m, w, y_high.data());
    ForwardingKernels::Add(p, y, y_high.data(), m * w.n, y);
  }
};

// A norm that rounds its output to bf16 once a batch is large (field notes, A2 and A4).
class RoundingInLargeBatches : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void RmsNorm(Parallel& p, const float* x, const float* weight, int64_t m, int64_t h,
               float epsilon, float* y, float* inverse_rms) const override {
    ForwardingKernels::RmsNorm(p, x, weight, m, h, epsilon, y, inverse_rms);
    if (m <= kLength) return;
    for (int64_t i = 0; i < m * h; ++i) {
      y[i] = std::bit_cast<float>((std::bit_cast<uint32_t>(y[i]) + 0x8000) & 0xffff0000);
    }
  }
};

// K and V of a page's last position are not written when a page is small: what attention reads
// there is stale (field notes, A10).
class StaleEndOfSmallPages : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void StoreKv(Parallel& p, const float* k, const float* v, int64_t stride,
               Span<SequenceRows> sequences, const KvPages& kv) const override {
    for (SequenceRows rows : sequences) {
      for (int64_t i = 0; i < rows.row_count; ++i) {
        const int64_t position = rows.first_position + i;
        if (kv.page_size < 16 && (position + 1) % kv.page_size == 0) continue;
        const SequenceRows one = {rows.row_begin + i, 1, position, rows.pages};
        ForwardingKernels::StoreKv(p, k, v, stride, {&one, 1}, kv);
      }
    }
  }
};

TEST(ForwardNegativeControlTest, SplitKForFewRowsTurnsChunksRed) {
  const SplitKForFewRows faulty(Scalar());
  ModelRunner whole = MakeRunner(faulty);
  EXPECT_TRUE(SameBits(InOnePiece(whole), Expected())) << "the fault is for few rows only";
  ModelRunner runner = MakeRunner(faulty);
  EXPECT_FALSE(SameBits(InChunks(runner, Sequence(), 1, 16), Expected()));
}

TEST(ForwardNegativeControlTest, RoundingInLargeBatchesTurnsCompanyRed) {
  const RoundingInLargeBatches faulty(Scalar());
  ModelRunner alone = MakeRunner(faulty);
  EXPECT_TRUE(SameBits(InOnePiece(alone), Expected()));
  ModelRunner runner = MakeRunner(faulty);
  EXPECT_FALSE(SameBits(AmongOthers(runner, {5, 0, 37}, kTinyVocabSize), Expected()));
}

TEST(ForwardNegativeControlTest, StalePageTurnsPageSizeRed) {
  const StaleEndOfSmallPages faulty(Scalar());
  ModelRunner large = MakeRunner(faulty);
  EXPECT_TRUE(SameBits(InOnePiece(large), Expected()));
  ModelRunner small = MakeRunner(faulty, {.page_size = 8});
  EXPECT_FALSE(SameBits(InOnePiece(small, 8), Expected()));
}

TEST(ForwardNegativeControlTest, AWrongPageTurnsItRed) {
  ModelRunner runner = MakeRunner(Scalar());
  TokenBatch head;
  head.Append(Sequence().data(), 100, 0, PagesFrom(0, kLength, 16));
  runner.Logits(head);
  std::vector<int32_t> pages = PagesFrom(0, kLength, 16);
  std::swap(pages[1], pages[2]);
  TokenBatch tail;
  tail.Append(Sequence().data() + 100, kLength - 100, 100, pages);
  EXPECT_FALSE(
      SameBits(runner.Logits(tail), absl::MakeConstSpan(Expected()).subspan(100 * kTinyVocabSize)));
}

TEST(ForwardNegativeControlTest, AnotherWeightTurnsItRed) {
  ModelRunner runner(TinyModelConfig(true), Scalar(), {}, [](OptimizerState& state) {
    Fill(state);
    state.master(state.layer_index(2) + 8)[0] *= 1.0f + 0x1p-20f;
  });
  EXPECT_FALSE(SameBits(InOnePiece(runner), Expected()));
}

}  // namespace
}  // namespace lockstep
