// Goal: the reference AdamW and gradient norm are good; the digest sees every bit and its place.
// Method: double oracle with bounds from running error analysis; digests of changed arrays.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/digest_hash.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/double_oracle.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

class OptimizerOracle : public testing::Test {
 protected:
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
};

TEST_F(OptimizerOracle, AdamWIsWithinBounds) {
  constexpr int64_t kCount = 203;
  const AdamWScalars s = {.gradient_scale = 0.125f,
                          .learning_rate = 0.01f,
                          .beta1 = 0.9f,
                          .one_minus_beta1 = 0.1f,
                          .beta2 = 0.95f,
                          .one_minus_beta2 = 0.05f,
                          .inverse_correction1 = 3.69f,
                          .inverse_correction2 = 7.01f,
                          .epsilon = 1e-8f,
                          .decay = 0.001f};
  const std::vector<float> gradient = RandomFloats(kCount, 1);
  std::vector<float> master = RandomFloats(kCount, 2);
  std::vector<float> moment1 = RandomFloats(kCount, 3, 0.1f);
  std::vector<float> moment2 = RandomFloats(kCount, 4, 0.01f);
  for (float& v : moment2) v = v < 0 ? -v : v;

  // Algorithm 2 of Loshchilov and Hutter 2019.
  std::vector<RunningError> expected_master, expected_moment1, expected_moment2;
  for (int64_t i = 0; i < kCount; ++i) {
    const RunningError g = RunningError(gradient[i]) * s.gradient_scale;
    const RunningError m = RunningError(s.beta1) * moment1[i] + RunningError(s.one_minus_beta1) * g;
    const RunningError v =
        RunningError(s.beta2) * moment2[i] + RunningError(s.one_minus_beta2) * g * g;
    const RunningError update =
        m * s.inverse_correction1 / (Sqrt(v * s.inverse_correction2) + s.epsilon);
    const RunningError decayed =
        RunningError(master[i]) - RunningError(s.decay) * RunningError(master[i]);
    expected_master.push_back(decayed - RunningError(s.learning_rate) * update);
    expected_moment1.push_back(m);
    expected_moment2.push_back(v);
  }
  kernels_->AdamW(serial_, s, kCount, gradient.data(), master.data(), moment1.data(),
                  moment2.data());
  ExpectWithinBounds(master, expected_master, "master");
  ExpectWithinBounds(moment1, expected_moment1, "moment1");
  ExpectWithinBounds(moment2, expected_moment2, "moment2");
}

TEST_F(OptimizerOracle, SumOfSquaresIsWithinBounds) {
  for (const int64_t n : {0, 1, 64, 4095, 4096, 4097, 20000}) {
    const std::vector<float> g = RandomFloats(n, 5);
    double exact = 0;
    for (const float value : g) exact += static_cast<double>(value) * value;
    // The sum in double adds nothing that fp32 would notice.
    const double bound = (oracle::RowDepth(std::min(n, kGradientLeaf)) + 1) * kUnitRoundoff * exact;
    const double got = kernels_->SumOfSquares(serial_, g.data(), n);
    EXPECT_LE(std::abs(got - exact), bound) << n;
    if (n > 0) {
      EXPECT_GT(std::abs(got * (1 + 0x1p-12) - exact), bound) << n;
    }
  }
}

TEST_F(OptimizerOracle, DigestIsASumOverBlocks) {
  const std::vector<float> x = RandomFloats(3000, 6);
  const Digest128 whole = kernels_->Digest(serial_, x.data(), 3000, 70);
  Digest128 parts = kernels_->Digest(serial_, x.data() + 2048, 952, 70 + 2048);
  parts += kernels_->Digest(serial_, x.data(), 2048, 70);
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(kernels_->Digest(serial_, x.data(), 0, 70), Digest128{});
}

TEST_F(OptimizerOracle, ZerosAddNothingToADigest) {
  std::vector<float> x(5000, 0.0f);
  EXPECT_EQ(kernels_->Digest(serial_, x.data(), 5000, 70), Digest128{});
  x[10] = 1.0f;
  EXPECT_EQ(kernels_->Digest(serial_, x.data(), 5000, 70),
            kernels_->Digest(serial_, x.data(), 11, 70));
}

TEST_F(OptimizerOracle, DigestSeesEveryBitAndItsPlace) {
  std::vector<float> x = RandomFloats(100, 7);
  const auto digest = [&] { return kernels_->Digest(serial_, x.data(), 100, 0); };
  const Digest128 before = digest();
  for (int bit = 0; bit < 32; ++bit) {
    const float kept = x[42];
    x[42] = std::bit_cast<float>(Bits(kept) ^ (1u << bit));
    const Digest128 after = digest();
    EXPECT_NE(after.low, before.low) << bit;
    EXPECT_NE(after.high, before.high) << bit;
    x[42] = kept;
  }
  std::swap(x[3], x[77]);
  EXPECT_NE(digest(), before) << "two elements exchanged";
  std::swap(x[3], x[77]);
  EXPECT_EQ(digest(), before);
  EXPECT_NE(kernels_->Digest(serial_, x.data(), 100, 1), before) << "another first index";
}

// Of a pair's elements, one changes the product with either keys unless the other makes its factor
// zero: never with both, because they differ. So no change of one element is missed, whatever the
// rest is; here the rest is what makes one factor zero.
TEST_F(OptimizerOracle, DigestSeesAnElementBesideAFactorOfZero) {
  for (int64_t i = 0; i < kDigestBlock; ++i) {
    const int64_t partner = i ^ 1;
    ASSERT_NE(kDigestKeys1.of[i], kDigestKeys2.of[i]) << i;
    for (const DigestKeys& keys : {kDigestKeys1, kDigestKeys2}) {
      std::vector<float> x = RandomFloats(kDigestBlock, 8);
      x[partner] = std::bit_cast<float>(0u - keys.of[partner]);
      const Digest128 before = kernels_->Digest(serial_, x.data(), kDigestBlock, 0);
      x[i] = -x[i];
      EXPECT_NE(kernels_->Digest(serial_, x.data(), kDigestBlock, 0), before) << i;
    }
  }
}

// Changes that go together, as faults of programs do, not at random.
TEST_F(OptimizerOracle, DigestSeesChangesThatBelongTogether) {
  using Change = void (*)(std::vector<float>&);
  const std::vector<std::pair<const char*, Change>> changes = {
      {"none", [](auto&) {}},
      {"all negated", [](auto& x) { std::ranges::transform(x, x.begin(), std::negate{}); }},
      {"rotated by one", [](auto& x) { std::rotate(x.begin(), x.begin() + 1, x.end()); }},
      {"reversed", [](auto& x) { std::ranges::reverse(x); }},
      {"blocks exchanged",
       [](auto& x) { std::swap_ranges(x.begin(), x.begin() + 1024, x.begin() + 2048); }},
      {"halves of a block exchanged",
       [](auto& x) { std::swap_ranges(x.begin(), x.begin() + 512, x.begin() + 512); }},
      {"a row written twice", [](auto& x) { std::copy_n(x.begin(), 64, x.begin() + 64); }},
      {"two elements negated", [](auto& x) { x[5] = -x[5], x[6] = -x[6]; }},
      {"both elements of a pair negated", [](auto& x) { x[6] = -x[6], x[7] = -x[7]; }},
      {"lower halves lost",
       [](auto& x) {
         for (float& v : x) v = std::bit_cast<float>(Bits(v) & 0xffff0000u);
       }},
  };
  std::vector<Digest128> digests;
  for (const auto& [name, change] : changes) {
    std::vector<float> x = RandomFloats(4096, 9);
    change(x);
    const Digest128 digest = kernels_->Digest(serial_, x.data(), 4096, 0);
    for (size_t other = 0; other < digests.size(); ++other) {
      EXPECT_NE(digest.low, digests[other].low) << name << " and " << changes[other].first;
      EXPECT_NE(digest.high, digests[other].high) << name << " and " << changes[other].first;
    }
    digests.push_back(digest);
  }
}

TEST_F(OptimizerOracle, DigestCountsRawBits) {
  const float plus = 0.0f, minus = -0.0f;
  EXPECT_NE(kernels_->Digest(serial_, &plus, 1, 0), kernels_->Digest(serial_, &minus, 1, 0));
}

}  // namespace
}  // namespace lockstep::kernels
