#ifndef LOCKSTEP_TESTS_KERNELS_REFERENCE_RUNNING_ERROR_H_
#define LOCKSTEP_TESTS_KERNELS_REFERENCE_RUNNING_ERROR_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

// Number types for the double oracle. The same template evaluates an operation
//   in double: the value;
//   in std::complex<double>: the derivative, by complex step (Squire and Trapp 1998);
//   in RunningError: the value and a bound on the error of any fp32 evaluation of the same formula
//   (running error analysis, Higham 2002, section 3.3). Tolerances are computed, never guessed.
namespace lockstep::kernels {

inline constexpr double kUnitRoundoff = 0x1p-24;
// What one operation may lose to flushed denormals.
inline constexpr double kUnderflow = 0x1p-126;
// Our exp and log promise 2 units in the last place: at most 2 * 2^-23 relative.
inline constexpr double kFunctionError = 0x1p-22;

class RunningError {
 public:
  RunningError() = default;
  RunningError(double value) : value_(value) {}  // NOLINT(runtime/explicit): exact numbers convert
  RunningError(double value, double error) : value_(value), error_(error) {}

  double value() const { return value_; }
  double error() const { return error_; }
  double magnitude() const { return std::abs(value_) + error_; }

  // A result computed once more in fp32, with a relative error of up to `relative`.
  static RunningError Rounded(double value, double error, double relative = kUnitRoundoff) {
    return {value, error + relative * (std::abs(value) + error) + kUnderflow};
  }

 private:
  double value_ = 0;
  double error_ = 0;
};

inline RunningError operator-(const RunningError& a) { return {-a.value(), a.error()}; }
inline RunningError operator+(const RunningError& a, const RunningError& b) {
  return RunningError::Rounded(a.value() + b.value(), a.error() + b.error());
}
inline RunningError operator-(const RunningError& a, const RunningError& b) { return a + -b; }
inline RunningError operator*(const RunningError& a, const RunningError& b) {
  return RunningError::Rounded(a.value() * b.value(),
                               std::abs(a.value()) * b.error() + a.error() * b.magnitude());
}
inline RunningError operator/(const RunningError& a, const RunningError& b) {
  const double value = a.value() / b.value();
  return RunningError::Rounded(
      value, (a.error() + std::abs(value) * b.error()) / (std::abs(b.value()) - b.error()));
}

inline double Exp(double x) { return std::exp(x); }
inline double Log(double x) { return std::log(x); }
inline double Sqrt(double x) { return std::sqrt(x); }
inline double Real(double x) { return x; }

inline std::complex<double> Exp(const std::complex<double>& x) { return std::exp(x); }
inline std::complex<double> Log(const std::complex<double>& x) { return std::log(x); }
inline std::complex<double> Sqrt(const std::complex<double>& x) { return std::sqrt(x); }
inline double Real(const std::complex<double>& x) { return x.real(); }

inline RunningError Exp(const RunningError& x) {
  const double value = std::exp(x.value());
  return RunningError::Rounded(value, value * std::expm1(x.error()), kFunctionError);
}
inline RunningError Log(const RunningError& x) {
  return RunningError::Rounded(std::log(x.value()), -std::log1p(-x.error() / x.value()),
                               kFunctionError);
}
inline RunningError Sqrt(const RunningError& x) {
  const double value = std::sqrt(x.value());
  return RunningError::Rounded(value, x.error() / value);
}
inline double Real(const RunningError& x) { return x.value(); }

// Sum of terms through at most `depth` fp32 additions each, in whatever order:
// |error| <= gamma(depth) * sum |term| (Higham 2002, section 4.2).
inline double Sum(const std::vector<double>& terms, int64_t /*depth*/) {
  double sum = 0;
  for (const double term : terms) sum += term;
  return sum;
}
inline std::complex<double> Sum(const std::vector<std::complex<double>>& terms, int64_t /*depth*/) {
  std::complex<double> sum = 0;
  for (const std::complex<double>& term : terms) sum += term;
  return sum;
}
inline RunningError Sum(const std::vector<RunningError>& terms, int64_t depth) {
  const double gamma = depth * kUnitRoundoff / (1 - depth * kUnitRoundoff);
  double value = 0;
  double error = 0;
  for (const RunningError& term : terms) {
    value += term.value();
    error += term.error() + gamma * term.magnitude() + kUnderflow;
  }
  return {value, error};
}

// Further fp32 operations that leave the exact value alone: a relative error of up to `relative`.
inline double Disturb(double x, double /*relative*/) { return x; }
inline std::complex<double> Disturb(const std::complex<double>& x, double /*relative*/) {
  return x;
}
inline RunningError Disturb(const RunningError& x, double relative) {
  return RunningError::Rounded(x.value(), x.error(), relative);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_REFERENCE_RUNNING_ERROR_H_
