// Goal: the reference log-probabilities, entropies and their gradient are good.
// Method: double oracle with bounds from running error analysis; the backward formula against the
// complex-step derivative of the forward.

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "kernels/serial.h"
#include "tests/kernels/reference/double_oracle.h"
#include "tests/kernels/reference/op_check.h"

namespace lockstep::kernels {
namespace {

using Complex = std::complex<double>;

class LogProbOracle : public testing::TestWithParam<int64_t> {
 protected:
  static constexpr int64_t kRows = 3;

  std::vector<RunningError> Row(int64_t row) const {
    return {logits_.begin() + row * v_, logits_.begin() + (row + 1) * v_};
  }

  const int64_t v_ = GetParam();
  const std::unique_ptr<Kernels> kernels_ = CreateReferenceKernels();
  Serial serial_;
  std::vector<float> logits_ = RandomFloats(kRows * v_, 1, 6.0f);
  const std::vector<float> temperature_ = {1.0f, 0.7f, 1.5f};
  const std::vector<int32_t> target_ = {0, static_cast<int32_t>(v_ / 2),
                                        static_cast<int32_t>(v_ - 1)};
  std::vector<float> log_sum_exp_ = std::vector<float>(kRows);
  std::vector<float> log_prob_ = std::vector<float>(kRows);
  std::vector<float> entropy_ = std::vector<float>(kRows);
};

TEST_P(LogProbOracle, ForwardIsWithinBounds) {
  kernels_->LogProb(serial_, logits_.data(), kRows, v_, temperature_.data(), target_.data(),
                    log_sum_exp_.data(), log_prob_.data(), entropy_.data());
  std::vector<RunningError> log_sum_exp, log_prob, entropy;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto expected = oracle::LogProb(Row(row), temperature_[row], target_[row]);
    log_sum_exp.push_back(expected.log_sum_exp);
    log_prob.push_back(expected.log_prob);
    entropy.push_back(expected.entropy);
  }
  ExpectWithinBounds(log_sum_exp_, log_sum_exp, "log_sum_exp");
  ExpectWithinBounds(log_prob_, log_prob, "log_prob");
  ExpectWithinBounds(entropy_, entropy, "entropy");
}

TEST_P(LogProbOracle, BackwardIsWithinBounds) {
  kernels_->LogProb(serial_, logits_.data(), kRows, v_, temperature_.data(), target_.data(),
                    log_sum_exp_.data(), log_prob_.data(), nullptr);
  const std::vector<float> coefficient = {1.0f, -0.3f, 2.5f};
  std::vector<RunningError> expected;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto gradient =
        oracle::LogProbBackward(Row(row), temperature_[row], target_[row], coefficient[row]);
    expected.insert(expected.end(), gradient.begin(), gradient.end());
  }
  kernels_->LogProbBackward(serial_, logits_.data(), kRows, v_, temperature_.data(), target_.data(),
                            log_sum_exp_.data(), coefficient.data());
  ExpectWithinBounds(logits_, expected, "dlogits");
}

TEST_P(LogProbOracle, ProbabilitiesAreWithinBounds) {
  kernels_->LogProb(serial_, logits_.data(), kRows, v_, temperature_.data(), target_.data(),
                    log_sum_exp_.data(), log_prob_.data(), nullptr);
  std::vector<float> p(v_);
  kernels_->Probabilities(logits_.data(), v_, temperature_[0], log_sum_exp_[0], p.data());
  const RunningError log_sum_exp = oracle::LogProb(Row(0), temperature_[0], 0).log_sum_exp;
  std::vector<RunningError> expected;
  for (const RunningError& logit : Row(0)) {
    expected.push_back(Exp(logit / RunningError(temperature_[0]) - log_sum_exp));
  }
  ExpectWithinBounds(p, expected, "probabilities");
}

INSTANTIATE_TEST_SUITE_P(Widths, LogProbOracle, testing::Values(2, 63, 259, 1024, 1025, 5000),
                         [](const auto& info) { return absl::StrCat(info.param); });

TEST(LogProbGradient, IsTheDerivativeOfTheForward) {
  constexpr double kTemperature = 0.75, kCoefficient = -1.25;
  constexpr int64_t kTarget = 3;
  const std::vector<float> logits = RandomFloats(11, 1, 3.0f);
  ExpectSameGradient(
      ComplexStepGradient(logits,
                          [&](const std::vector<Complex>& point) {
                            return kCoefficient *
                                   oracle::LogProb(point, kTemperature, kTarget).log_prob;
                          }),
      oracle::LogProbBackward(oracle::To<RunningError>(logits), kTemperature, kTarget,
                              kCoefficient),
      "dlogits");
}

}  // namespace
}  // namespace lockstep::kernels
