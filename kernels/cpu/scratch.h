#ifndef LOCKSTEP_KERNELS_CPU_SCRATCH_H_
#define LOCKSTEP_KERNELS_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <new>

namespace lockstep::kernels::cpu {

// Working memory of one call in one thread: hands out arrays one after the other, each aligned to a
// cache line, from a single allocation. Contents are undefined. A template only so that each
// instruction set has a copy of its own (docs/decisions/0007-instruction-sets.md).
template <class V>
class Scratch {
 public:
  // floats: the sum of Rounded(n) over all the arrays that will be taken.
  explicit Scratch(int64_t floats)
      : memory_(static_cast<float*>(
            ::operator new (Rounded(floats) * sizeof(float), std::align_val_t{kAlignment}))),
        next_(memory_) {}
  ~Scratch() { ::operator delete (memory_, std::align_val_t{kAlignment}); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // What an array of n floats uses up.
  static constexpr int64_t Rounded(int64_t n) { return (n + kFloats - 1) / kFloats * kFloats; }

  float* Take(int64_t n) {
    float* taken = next_;
    next_ += Rounded(n);
    return taken;
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr int64_t kFloats = kAlignment / sizeof(float);

  float* const memory_;
  float* next_;
};

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_SCRATCH_H_
