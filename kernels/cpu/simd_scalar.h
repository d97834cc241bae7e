#ifndef LOCKSTEP_KERNELS_CPU_SIMD_SCALAR_H_
#define LOCKSTEP_KERNELS_CPU_SIMD_SCALAR_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/bf16.h"

namespace lockstep::kernels::scalar {

// One fp32 lane: the vector type of kernels/cpu for CPUs with FMA and nothing wider, with the
// members of avx2::F32x8 (simd_avx2.h). The compiler may make vectors of the loops over lanes; it
// may not reorder anything.

struct Mask1 {
  bool raw;

  static Mask1 First(int64_t count) { return {count > 0}; }
};

struct I32x1 {
  // Unsigned, so that what overflows wraps as it does in a vector.
  uint32_t raw;

  static I32x1 Broadcast(int32_t value) { return {static_cast<uint32_t>(value)}; }
};

inline I32x1 operator+(I32x1 a, I32x1 b) { return {a.raw + b.raw}; }
inline I32x1 operator-(I32x1 a, I32x1 b) { return {a.raw - b.raw}; }
inline I32x1 operator&(I32x1 a, I32x1 b) { return {a.raw & b.raw}; }
inline I32x1 operator|(I32x1 a, I32x1 b) { return {a.raw | b.raw}; }
template <int kBits>
inline I32x1 ShiftLeft(I32x1 a) {
  return {a.raw << kBits};
}
// Sign-extending.
template <int kBits>
inline I32x1 ShiftRight(I32x1 a) {
  return {static_cast<uint32_t>(static_cast<int32_t>(a.raw) >> kBits)};
}

struct F32x1 {
  using Mask = Mask1;
  using Int = I32x1;

  static constexpr int64_t kLanes = 1;
  // A row of a matrix product's register tile is 32 sums: four vectors, should the compiler make
  // vectors of eight.
  static constexpr int64_t kTileRows = 1;
  static constexpr int64_t kTileRowsWidening = 1;
  // Attention's tile.
  static constexpr int64_t kAttentionRows = 4;
  static constexpr int64_t kAttentionChains = 8;

  float raw;

  static F32x1 Zero() { return {0.0f}; }
  static F32x1 Broadcast(float value) { return {value}; }
  static F32x1 Load(const float* from) { return {*from}; }
  static F32x1 LoadFirst(const float* from, int64_t count) { return {count > 0 ? *from : 0.0f}; }
  static F32x1 LoadBf16(const uint16_t* from) { return {WidenBf16(*from)}; }
  static F32x1 LoadFirstBf16(const uint16_t* from, int64_t count) {
    return {count > 0 ? WidenBf16(*from) : 0.0f};
  }
  void Store(float* to) const { *to = raw; }
  void StoreFirst(float* to, int64_t count) const {
    if (count > 0) *to = raw;
  }
  void StoreBf16(uint16_t* to) const {
    *to = static_cast<uint16_t>(std::bit_cast<uint32_t>(raw) >> 16);
  }
  void StoreFirstBf16(uint16_t* to, int64_t count) const {
    if (count > 0) StoreBf16(to);
  }
};

inline F32x1 operator+(F32x1 a, F32x1 b) { return {a.raw + b.raw}; }
inline F32x1 operator-(F32x1 a, F32x1 b) { return {a.raw - b.raw}; }
inline F32x1 operator*(F32x1 a, F32x1 b) { return {a.raw * b.raw}; }
inline F32x1 operator/(F32x1 a, F32x1 b) { return {a.raw / b.raw}; }
// a * b + c, rounded once: an instruction, because this is compiled with -mfma.
inline F32x1 Fma(F32x1 a, F32x1 b, F32x1 c) { return {std::fma(a.raw, b.raw, c.raw)}; }
inline F32x1 Sqrt(F32x1 a) { return {std::sqrt(a.raw)}; }
inline F32x1 operator-(F32x1 a) { return {-a.raw}; }

inline Mask1 operator<(F32x1 a, F32x1 b) { return {a.raw < b.raw}; }
inline Mask1 operator>(F32x1 a, F32x1 b) { return {a.raw > b.raw}; }
inline Mask1 operator>=(F32x1 a, F32x1 b) { return {a.raw >= b.raw}; }
inline Mask1 operator==(F32x1 a, F32x1 b) { return {a.raw == b.raw}; }
inline Mask1 IsNan(F32x1 a) { return {a.raw != a.raw}; }

inline F32x1 Select(Mask1 mask, F32x1 a, F32x1 b) { return mask.raw ? a : b; }

inline I32x1 BitsOf(F32x1 a) { return {std::bit_cast<uint32_t>(a.raw)}; }
inline F32x1 FromBits(I32x1 a) { return {std::bit_cast<float>(a.raw)}; }
// Exact for |a| < 2^24.
inline F32x1 ToFloat(I32x1 a) { return {static_cast<float>(static_cast<int32_t>(a.raw))}; }

inline void TransposeSquare(F32x1 /*lanes*/, const float* from, int64_t /*from_stride*/, float* to,
                            int64_t /*to_stride*/) {
  *to = *from;
}

}  // namespace lockstep::kernels::scalar

#endif  // LOCKSTEP_KERNELS_CPU_SIMD_SCALAR_H_
