// Goal: a row's outputs are its own: the same bits alone and in any batch, first, in the middle or
// last, with neighbours that hold NaN and infinities; and the caller's floating-point state does
// not matter and comes back untouched. Method: one row of data placed into batches of other rows;
// bit comparison with the row alone.

#include <xmmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "kernels/op_probe.h"
#include "tests/kernels/cpu/same_bits.h"

namespace lockstep::kernels {
namespace {

using Floats = std::vector<float>;

Floats RowOf(int64_t width, float first) {
  Floats row(width);
  float value = first;
  for (float& x : row) {
    x = value;
    value = value * -0.83f + 0.11f;
  }
  return row;
}

// Memory of pages with `elements` numbers, as a backend keeps them.
Floats PageData(const Kernels& kernels, int64_t elements) {
  Floats data = RowOf(elements, 0.9f);
  if (kernels.profile() == Profile::kFp32) return data;
  std::vector<uint16_t> halves;
  for (const float value : data) halves.push_back(NarrowToBf16(value));
  std::memcpy(data.data(), halves.data(), halves.size() * sizeof(uint16_t));
  return data;
}

class RowIndependenceTest : public BackendTest {
 protected:
  // `run(x, m, y)` computes y[m, out_width] from x[m, in_width].
  void ExpectOwnBits(int64_t in_width, int64_t out_width,
                     absl::FunctionRef<void(const float* x, int64_t m, float* y)> run) {
    const Floats row = RowOf(in_width, 0.7f);
    Floats alone(out_width);
    run(row.data(), 1, alone.data());
    ASSERT_EQ(std::count(alone.begin(), alone.end(), 0.0f), 0) << "a row of zeros proves nothing";
    const float fillers[] = {0.5f, std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::infinity(), 0x1p-149f};
    for (const int64_t m : {2, 3, 4, 17, 128, 129, 257}) {
      for (const int64_t place : {int64_t{0}, m / 2, m - 1}) {
        for (const float filler : fillers) {
          Floats x(m * in_width, filler);
          std::copy(row.begin(), row.end(), x.begin() + place * in_width);
          Floats y(m * out_width);
          run(x.data(), m, y.data());
          EXPECT_EQ(
              std::memcmp(y.data() + place * out_width, alone.data(), out_width * sizeof(float)), 0)
              << "row " << place << " of " << m << " beside " << filler;
        }
      }
    }
  }
};

TEST_F(RowIndependenceTest, MatMul) {
  ForEachBackend([&](const Kernels& kernels) {
    constexpr int64_t kN = 45;
    constexpr int64_t kK = 530;
    std::vector<float> panels(PackedBytes(kernels.profile(), kN, kK) / sizeof(float));
    kernels.Pack(*workers_[0], RowOf(kN * kK, 0.3f).data(), kN, kK, panels.data());
    const PackedMatrix w = {panels.data(), kN, kK};
    ExpectOwnBits(kK, kN, [&](const float* x, int64_t m, float* y) {
      kernels.MatMul(*workers_[1], x, m, w, y);
    });
    ExpectOwnBits(kN, kK, [&](const float* x, int64_t m, float* y) {
      kernels.MatMulBackwardInput(*workers_[1], x, m, w, y);
    });
  });
}

TEST_F(RowIndependenceTest, HeadNormAndAddBias) {
  ForEachBackend([&](const Kernels& kernels) {
    constexpr int64_t kHeads = 3;
    constexpr int64_t kHeadDim = 25;
    constexpr int64_t kWidth = kHeads * kHeadDim;
    const Floats weight = RowOf(kWidth, 1.1f);
    ExpectOwnBits(kWidth, kWidth, [&](const float* x, int64_t m, float* y) {
      Floats before(m * kWidth);
      Floats inverse_rms(m * kHeads);
      std::copy_n(x, m * kWidth, y);
      kernels.HeadNorm(*workers_[1], y, kWidth, weight.data(), m, kHeads, kHeadDim, 1e-5f,
                       before.data(), inverse_rms.data());
    });
    ExpectOwnBits(kWidth, kWidth, [&](const float* x, int64_t m, float* y) {
      std::copy_n(x, m * kWidth, y);
      kernels.AddBias(*workers_[1], weight.data(), m, kWidth, y);
    });
  });
}

TEST_F(RowIndependenceTest, RmsNormAndSiluMul) {
  ForEachBackend([&](const Kernels& kernels) {
    constexpr int64_t kWidth = 75;
    const Floats weight = RowOf(kWidth, 1.1f);
    ExpectOwnBits(kWidth, kWidth, [&](const float* x, int64_t m, float* y) {
      Floats inverse_rms(m);
      kernels.RmsNorm(*workers_[1], x, weight.data(), m, kWidth, 1e-5f, y, inverse_rms.data());
    });
    ExpectOwnBits(2 * kWidth, kWidth, [&](const float* x, int64_t m, float* y) {
      kernels.SiluMul(*workers_[1], x, m, kWidth, y);
    });
  });
}

TEST_F(RowIndependenceTest, LogProb) {
  ForEachBackend([&](const Kernels& kernels) {
    constexpr int64_t kVocabulary = 1500;
    ExpectOwnBits(kVocabulary, 1, [&](const float* x, int64_t m, float* y) {
      const Floats temperature(m, 0.7f);
      const std::vector<int32_t> target(m, 1234);
      Floats log_sum_exp(m);
      Floats entropy(m);
      kernels.LogProb(*workers_[1], x, m, kVocabulary, temperature.data(), target.data(),
                      log_sum_exp.data(), y, entropy.data());
    });
  });
}

// Rows of one batch that are sequences of their own, all reading the same pages.
TEST_F(RowIndependenceTest, Attention) {
  ForEachBackend([&](const Kernels& kernels) {
    const AttentionShape shape = {.q_heads = 3, .kv_heads = 1, .head_dim = 16, .scale = 0.25f};
    constexpr int64_t kPageSize = 16;
    constexpr int64_t kPosition = 140;
    Floats data = PageData(kernels, 2 * (kPosition + kPageSize) * shape.head_dim);
    const KvPages kv = {.data = data.data(),
                        .page_stride = 2 * kPageSize * shape.head_dim,
                        .page_size = kPageSize,
                        .kv_heads = 1,
                        .head_dim = shape.head_dim};
    const std::vector<int32_t> pages = {3, 1, 0, 2, 8, 7, 5, 6, 4};
    const int64_t width = shape.q_heads * shape.head_dim;
    ExpectOwnBits(width, width, [&](const float* x, int64_t m, float* y) {
      std::vector<SequenceRows> sequences;
      for (int64_t row = 0; row < m; ++row) {
        sequences.push_back(
            {.row_begin = row, .row_count = 1, .first_position = kPosition, .pages = pages});
      }
      kernels.Attention(*workers_[1], shape, x, width, sequences, kv, y, nullptr);
    });
  });
}

TEST_F(RowIndependenceTest, PrefillChunksAreNeutral) {
  ForEachBackend([&](const Kernels& kernels) {
    const AttentionShape shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .scale = 0.35f};
    constexpr int64_t kRows = 150;
    constexpr int64_t kPageSize = 8;
    const int64_t width = shape.q_heads * shape.head_dim;
    Floats data = PageData(kernels, 2 * (kRows + kPageSize) * shape.head_dim);
    std::vector<int32_t> pages(kRows / kPageSize + 1);
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
    const KvPages kv = {.data = data.data(),
                        .page_stride = 2 * kPageSize * shape.head_dim,
                        .page_size = kPageSize,
                        .kv_heads = 1,
                        .head_dim = shape.head_dim};
    const Floats q = RowOf(kRows * width, 0.4f);
    Floats whole(kRows * width);
    const SequenceRows all = {.row_begin = 0, .row_count = kRows, .pages = pages};
    kernels.Attention(*workers_[0], shape, q.data(), width, {&all, 1}, kv, whole.data(), nullptr);
    for (const int64_t chunk : {1, 5, 16, 64}) {
      Floats out(kRows * width);
      for (int64_t first = 0; first < kRows; first += chunk) {
        const SequenceRows part = {.row_begin = first,
                                   .row_count = std::min(chunk, kRows - first),
                                   .first_position = first,
                                   .pages = pages};
        kernels.Attention(*workers_[1], shape, q.data(), width, {&part, 1}, kv, out.data(),
                          nullptr);
      }
      EXPECT_EQ(std::memcmp(out.data(), whole.data(), out.size() * sizeof(float)), 0) << chunk;
    }
  });
}

TEST_F(RowIndependenceTest, FloatingPointStateOfTheCaller) {
  ForEachBackend([&](const Kernels& kernels) {
    const ProductCase c = {.m = 5, .n = 9, .k = 600};
    const ProbeSeed seed = {.seed = 3, .data = ProbeData::kEdges};
    const OpOutputs expected = ProbeMatMul(kernels, *workers_[0], c, seed);
    const unsigned before = _mm_getcsr();
    for (const unsigned state : {0x1f80u, 0x9fc0u, 0x7f80u}) {  // plain, DAZ|FTZ, rounding to zero
      _mm_setcsr(state);
      const OpOutputs actual = ProbeMatMul(kernels, *workers_[0], c, seed);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      EXPECT_EQ(after & ~0x3fu, state & ~0x3fu);  // without the sticky exception flags
      EXPECT_TRUE(SameBits(actual, expected));
    }
  });
}

}  // namespace
}  // namespace lockstep::kernels
