// Checks of our own invariants. LOCKSTEP_CHECK(condition) << "what it means" prints file, line, the
// condition and the message to stderr and aborts when the condition is false, in every build. It is
// for bugs of ours and never for what a request, a file or the network can contain: those return
// absl::Status.
//
// The message is only evaluated on failure. Usable from any thread.
#ifndef LOCKSTEP_CORE_BASE_CHECK_H_
#define LOCKSTEP_CORE_BASE_CHECK_H_

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

namespace lockstep::check_internal {

// Collects the message of a failed check; the end of the full expression destroys it, which ends
// the process.
class Failure {
 public:
  Failure(const char* file, int line, const char* condition) {
    message_ << file << ":" << line << ": check failed: " << condition << " ";
  }
  Failure(const char* file, int line, const std::string& comparison)
      : Failure(file, line, comparison.c_str()) {}
  [[noreturn]] ~Failure() {
    std::cerr << message_.str() << std::endl;
    std::abort();
  }

  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Turns the stream expression into void, so that both branches of the conditional operator agree.
// `&` binds looser than
// `<<` and tighter than `?:`.
struct Voidify {
  void operator&(std::ostream&) const {}
};

template <typename A, typename B>
std::unique_ptr<std::string> DescribeComparison(const char* text, const A& a, const B& b) {
  std::ostringstream description;
  description << text << " (" << a << " vs. " << b << ")";
  return std::make_unique<std::string>(description.str());
}

}  // namespace lockstep::check_internal

#define LOCKSTEP_CHECK(condition)                       \
  (condition) ? (void)0                                 \
              : ::lockstep::check_internal::Voidify() & \
                    ::lockstep::check_internal::Failure(__FILE__, __LINE__, #condition).stream()

// LOCKSTEP_CHECK_EQ(a, b) and its kin print both values. Each operand is evaluated once. The loop
// runs its body at most once, because the body does not return.
#define LOCKSTEP_CHECK_OP_(name, op, a, b)                                                         \
  while (                                                                                          \
      std::unique_ptr<std::string> lockstep_failed_comparison = [](const auto& x, const auto& y) { \
        return x op y ? nullptr                                                                    \
                      : ::lockstep::check_internal::DescribeComparison(#a " " #op " " #b, x, y);   \
      }((a), (b)))                                                                                 \
  ::lockstep::check_internal::Failure(__FILE__, __LINE__, *lockstep_failed_comparison).stream()

#define LOCKSTEP_CHECK_EQ(a, b) LOCKSTEP_CHECK_OP_(EQ, ==, a, b)
#define LOCKSTEP_CHECK_NE(a, b) LOCKSTEP_CHECK_OP_(NE, !=, a, b)
#define LOCKSTEP_CHECK_LT(a, b) LOCKSTEP_CHECK_OP_(LT, <, a, b)
#define LOCKSTEP_CHECK_LE(a, b) LOCKSTEP_CHECK_OP_(LE, <=, a, b)
#define LOCKSTEP_CHECK_GT(a, b) LOCKSTEP_CHECK_OP_(GT, >, a, b)
#define LOCKSTEP_CHECK_GE(a, b) LOCKSTEP_CHECK_OP_(GE, >=, a, b)

#endif  // LOCKSTEP_CORE_BASE_CHECK_H_
