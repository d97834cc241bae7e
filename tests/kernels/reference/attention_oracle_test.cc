// Goal: the reference attention is good, forward and backward, across KV blocks, pages and groups.
// Method: double oracle with bounds from running error analysis; the backward formula against the
// complex-step derivative of the forward.

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/double_oracle.h"
#include "tests/kernels/reference/op_check.h"
#include "tests/kernels/reference/paged_kv.h"

namespace lockstep::kernels {
namespace {

using Complex = std::complex<double>;

struct Case {
  int64_t rows, q_heads, kv_heads, head_dim, page_size;
  std::string Name() const {
    return absl::StrCat(rows, "rows_", q_heads, "x", kv_heads, "heads_", head_dim, "d_", page_size,
                        "page");
  }
  AttentionShape Shape() const {
    return {.q_heads = q_heads, .kv_heads = kv_heads, .head_dim = head_dim, .scale = 0.3f};
  }
};

struct Inputs {
  explicit Inputs(const Case& c)
      : q(RandomFloats(c.rows * c.q_heads * c.head_dim, 1, 2.0f)),
        k(RandomFloats(c.rows * c.kv_heads * c.head_dim, 2, 2.0f)),
        v(RandomFloats(c.rows * c.kv_heads * c.head_dim, 3)),
        dout(RandomFloats(c.rows * c.q_heads * c.head_dim, 4)) {}

  std::vector<float> q, k, v, dout;
};

template <typename T>
oracle::AttentionInput<T> OracleInput(const Case& c, const Inputs& in) {
  return {.shape = c.Shape(),
          .rows = c.rows,
          .q = oracle::To<T>(in.q),
          .k = oracle::To<T>(in.k),
          .v = oracle::To<T>(in.v)};
}

class AttentionOracle : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::vector<SequenceRows> sequences = {kv_.Rows(0, 0, c_.rows, 0)};
    kernels_->StoreKv(serial_, in_.k.data(), in_.v.data(), c_.kv_heads * c_.head_dim, sequences,
                      kv_.pages());
    kernels_->Attention(serial_, c_.Shape(), in_.q.data(), c_.q_heads * c_.head_dim, sequences,
                        kv_.pages(), out_.data(), log_sum_exp_.data());
  }

  const Case c_ = GetParam();
  const Inputs in_{c_};
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
  PagedKv kv_{c_.Shape(), 1, c_.rows, c_.page_size};
  std::vector<float> out_ = std::vector<float>(c_.rows * c_.q_heads * c_.head_dim);
  std::vector<float> log_sum_exp_ = std::vector<float>(c_.rows * c_.q_heads);
};

TEST_P(AttentionOracle, ForwardIsWithinBounds) {
  std::vector<float> got = out_;
  got.insert(got.end(), log_sum_exp_.begin(), log_sum_exp_.end());
  ExpectWithinBounds(got, oracle::Attention(OracleInput<RunningError>(c_, in_)), "out, lse");
}

TEST_P(AttentionOracle, BackwardIsWithinBounds) {
  const int64_t q_width = c_.q_heads * c_.head_dim;
  const int64_t kv_width = c_.kv_heads * c_.head_dim;
  const int64_t stride = q_width + 2 * kv_width;
  std::vector<float> dqkv(c_.rows * stride);
  const std::vector<SequenceRows> sequences = {kv_.Rows(0, 0, c_.rows, 0)};
  kernels_->AttentionBackward(serial_, c_.Shape(), in_.q.data(), q_width, sequences, kv_.pages(),
                              out_.data(), log_sum_exp_.data(), in_.dout.data(), dqkv.data(),
                              stride);
  // From rows of q | k | v to the oracle's dq, dk, dv.
  std::vector<float> got;
  const auto append = [&](int64_t column, int64_t width) {
    for (int64_t row = 0; row < c_.rows; ++row) {
      const float* begin = &dqkv[row * stride + column];
      got.insert(got.end(), begin, begin + width);
    }
  };
  append(0, q_width);
  append(q_width, kv_width);
  append(q_width + kv_width, kv_width);
  ExpectWithinBounds(got,
                     oracle::AttentionBackward(OracleInput<RunningError>(c_, in_),
                                               oracle::To<RunningError>(in_.dout)),
                     "dq, dk, dv");
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionOracle,
                         testing::Values(Case{1, 1, 1, 8, 8}, Case{7, 4, 2, 8, 8},
                                         Case{129, 2, 1, 16, 16}, Case{128, 1, 1, 8, 128},
                                         Case{261, 3, 1, 8, 32}),
                         [](const auto& info) { return info.param.Name(); });

TEST(AttentionGradient, IsTheDerivativeOfTheForward) {
  const Case c = {.rows = 6, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .page_size = 8};
  const Inputs in(c);
  // q, k and v as one point.
  std::vector<float> x = in.q;
  x.insert(x.end(), in.k.begin(), in.k.end());
  x.insert(x.end(), in.v.begin(), in.v.end());
  const std::vector<double> gradient =
      ComplexStepGradient(x, [&](const std::vector<Complex>& point) {
        const auto k = point.begin() + in.q.size();
        const auto v = k + in.k.size();
        const oracle::AttentionInput<Complex> input = {.shape = c.Shape(),
                                                       .rows = c.rows,
                                                       .q = {point.begin(), k},
                                                       .k = {k, v},
                                                       .v = {v, point.end()}};
        return WeightedSum(oracle::Attention(input), in.dout);
      });
  ExpectSameGradient(gradient,
                     oracle::AttentionBackward(OracleInput<RunningError>(c, in),
                                               oracle::To<RunningError>(in.dout)),
                     "dq, dk, dv");
}

}  // namespace
}  // namespace lockstep::kernels
