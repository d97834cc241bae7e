// Goal: a row's numbers depend on nothing but the row and its own sequence: not on other rows, NaN
// among them, not on pages, prefill chunks or the cut of the data into calls.
// Method: the same data arranged differently, compared bit by bit.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/op_check.h"
#include "tests/kernels/reference/paged_kv.h"

namespace lockstep::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr AttentionShape kShape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .scale = 0.35f};
constexpr int64_t kQWidth = kShape.q_heads * kShape.head_dim;
constexpr int64_t kKvWidth = kShape.kv_heads * kShape.head_dim;
constexpr int64_t kStride = kQWidth + 2 * kKvWidth;  // rows of q | k | v

class Invariance : public testing::Test {
 protected:
  // Outputs, log-sum-exps and gradients of one sequence whose qkv rows are `qkv`, prefilled in
  // chunks of `chunk` rows, beside a second sequence that is all `neighbour`.
  struct Attended {
    std::vector<float> out, log_sum_exp, dqkv;
  };
  Attended Attend(const std::vector<float>& qkv, int64_t page_size, int64_t chunk,
                  float neighbour) {
    const int64_t rows = static_cast<int64_t>(qkv.size()) / kStride;
    const PagedKv kv(kShape, 2, rows, page_size);
    Attended result;
    for (int64_t begin = 0; begin < rows; begin += chunk) {
      const int64_t count = std::min(chunk, rows - begin);
      // The neighbour's rows come first in the batch.
      std::vector<float> batch(count * kStride, neighbour);
      batch.insert(batch.end(), qkv.begin() + begin * kStride,
                   qkv.begin() + (begin + count) * kStride);
      const std::vector<SequenceRows> sequences = {kv.Rows(0, 0, count, begin),
                                                   kv.Rows(1, count, count, begin)};
      std::vector<float> out(2 * count * kQWidth), log_sum_exp(2 * count * kShape.q_heads);
      kernels_->StoreKv(serial_, &batch[kQWidth], &batch[kQWidth + kKvWidth], kStride, sequences,
                        kv.pages());
      kernels_->Attention(serial_, kShape, batch.data(), kStride, sequences, kv.pages(), out.data(),
                          log_sum_exp.data());
      result.out.insert(result.out.end(), out.begin() + count * kQWidth, out.end());
      result.log_sum_exp.insert(result.log_sum_exp.end(),
                                log_sum_exp.begin() + count * kShape.q_heads, log_sum_exp.end());
    }
    const std::vector<SequenceRows> whole = {kv.Rows(1, 0, rows, 0)};
    const std::vector<float> dout = RandomFloats(rows * kQWidth, 9);
    result.dqkv.resize(rows * kStride);
    kernels_->AttentionBackward(serial_, kShape, qkv.data(), kStride, whole, kv.pages(),
                                result.out.data(), result.log_sum_exp.data(), dout.data(),
                                result.dqkv.data(), kStride);
    return result;
  }

  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
};

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(Bits(a), Bits(b));
}

TEST_F(Invariance, AttentionKnowsNoPagesChunksOrNeighbours) {
  constexpr int64_t kRows = 150;
  const std::vector<float> qkv = RandomFloats(kRows * kStride, 1, 2.0f);
  const Attended expected = Attend(qkv, 128, kRows, 0.0f);
  for (const int64_t page_size : {8, 16, 32, 64}) {
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, kRows}) {
      SCOPED_TRACE(testing::Message() << "page " << page_size << " chunk " << chunk);
      const Attended got = Attend(qkv, page_size, chunk, kNaN);
      ExpectSameBits(got.out, expected.out);
      ExpectSameBits(got.log_sum_exp, expected.log_sum_exp);
      ExpectSameBits(got.dqkv, expected.dqkv);
    }
  }
}

TEST_F(Invariance, APoisonedQueryPoisonsItsOwnRowAlone) {
  constexpr int64_t kRows = 20, kPoisoned = 11;
  std::vector<float> qkv = RandomFloats(kRows * kStride, 1);
  const Attended expected = Attend(qkv, 16, kRows, 0.0f);
  qkv[kPoisoned * kStride] = kNaN;  // one element of head 0's query
  const Attended got = Attend(qkv, 16, kRows, 0.0f);
  for (int64_t i = 0; i < kRows * kQWidth; ++i) {
    const bool hit = i / kQWidth == kPoisoned && i % kQWidth < kShape.head_dim;
    EXPECT_EQ(Bits(got.out[i]), hit ? 0x7fc00000u : Bits(expected.out[i])) << i;
  }
}

// Outputs of the row operations for rows of width kWidth, one entry an operation.
constexpr int64_t kWidth = 70, kOutputs = 33;

struct RowOutputs {
  explicit RowOutputs(int64_t m)
      : product(m * kOutputs), norm(m * kWidth), silu(m * kWidth / 2), log_prob(m) {}

  std::vector<float> product, norm, silu, log_prob;

  RowOutputs Row(int64_t row) const {
    RowOutputs result(1);
    const auto copy = [row](const std::vector<float>& from, std::vector<float>& to) {
      const int64_t width = static_cast<int64_t>(to.size());
      std::copy_n(from.begin() + row * width, width, to.begin());
    };
    copy(product, result.product);
    copy(norm, result.norm);
    copy(silu, result.silu);
    copy(log_prob, result.log_prob);
    return result;
  }
};

RowOutputs RunRowOperations(const Kernels& kernels, const std::vector<float>& x) {
  const int64_t m = static_cast<int64_t>(x.size()) / kWidth;
  Serial serial;
  RowOutputs outputs(m);
  const std::vector<float> w = RandomFloats(kOutputs * kWidth, 2), weight = RandomFloats(kWidth, 3);
  std::vector<float> panels(PackedBytes(Profile::kFp32, kOutputs, kWidth) / sizeof(float)),
      unused(m), entropy(m);
  kernels.Pack(serial, w.data(), kOutputs, kWidth, panels.data());
  kernels.MatMul(serial, x.data(), m, {.panels = panels.data(), .n = kOutputs, .k = kWidth},
                 outputs.product.data());
  kernels.RmsNorm(serial, x.data(), weight.data(), m, kWidth, 1e-5f, outputs.norm.data(),
                  unused.data());
  kernels.SiluMul(serial, x.data(), m, kWidth / 2, outputs.silu.data());
  const std::vector<float> temperature(m, 0.7f);
  const std::vector<int32_t> target(m, 5);
  kernels.LogProb(serial, x.data(), m, kWidth, temperature.data(), target.data(), unused.data(),
                  outputs.log_prob.data(), entropy.data());
  return outputs;
}

TEST_F(Invariance, RowOperationsIgnoreOtherRows) {
  constexpr int64_t kM = 3;
  const std::vector<float> alone = RandomFloats(kWidth, 1);
  const RowOutputs expected = RunRowOperations(*kernels_, alone);
  for (int64_t place = 0; place < kM; ++place) {
    std::vector<float> x(kM * kWidth, kNaN);
    std::copy(alone.begin(), alone.end(), x.begin() + place * kWidth);
    const RowOutputs all = RunRowOperations(*kernels_, x);
    const RowOutputs got = all.Row(place);
    ExpectSameBits(got.product, expected.product);
    ExpectSameBits(got.norm, expected.norm);
    ExpectSameBits(got.silu, expected.silu);
    ExpectSameBits(got.log_prob, expected.log_prob);
    // Negative control: the other rows are as bad as they were meant to be.
    EXPECT_EQ(Bits(all.log_prob[(place + 1) % kM]), 0x7fc00000u);
  }
}

TEST_F(Invariance, WeightGradientsIgnoreTheCutIntoCalls) {
  constexpr int64_t kM = 400, kN = 3, kK = 5;
  const std::vector<float> dy = RandomFloats(kM * kN, 1), x = RandomFloats(kM * kK, 2);
  const std::vector<int64_t> data = {0, 150, 151, kM};
  std::vector<float> whole(kN * kK, 0.0f), pieces(kN * kK, 0.0f), moved(kN * kK, 0.0f);
  kernels_->MatMulBackwardWeight(serial_, dy.data(), x.data(), data, kN, kK, whole.data());
  for (size_t datum = 0; datum + 1 < data.size(); ++datum) {
    const int64_t begin = data[datum];
    kernels_->MatMulBackwardWeight(serial_, &dy[begin * kN], &x[begin * kK],
                                   {0, data[datum + 1] - begin}, kN, kK, pieces.data());
  }
  ExpectSameBits(whole, pieces);
  // Negative control: data cut elsewhere are other data.
  kernels_->MatMulBackwardWeight(serial_, dy.data(), x.data(), {0, 149, 151, kM}, kN, kK,
                                 moved.data());
  EXPECT_NE(Bits(whole), Bits(moved));
}

}  // namespace
}  // namespace lockstep::kernels
