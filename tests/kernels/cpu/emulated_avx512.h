#ifndef LOCKSTEP_TESTS_KERNELS_CPU_EMULATED_AVX512_H_
#define LOCKSTEP_TESTS_KERNELS_CPU_EMULATED_AVX512_H_

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

// The AVX-512 intrinsics of kernels/cpu/simd_avx512.h in plain C++, under their own names, so that
// the file can be tested on a CPU without them. Each does what Intel's Intrinsics Guide says of it,
// element by element, and touches no memory that a mask hides. Include before simd_avx512.h.

namespace lockstep::emulated {

// A 512-bit register: 16 floats or integers of 32 bits.
struct M512 {
  uint32_t bits[16];

  float At(int i) const { return std::bit_cast<float>(bits[i]); }
};

template <class Element>
inline M512 ForEach(Element element) {
  M512 result;
  for (int i = 0; i < 16; ++i) {
    result.bits[i] = std::bit_cast<uint32_t>(element(i));
  }
  return result;
}

inline M512 SetFloat(float value) {
  return ForEach([=](int) { return value; });
}
inline M512 SetInt(int value) {
  return ForEach([=](int) { return value; });
}

inline M512 Load(const float* from, __mmask16 mask = 0xffff) {
  return ForEach([=](int i) { return (mask >> i & 1) != 0 ? from[i] : 0.0f; });
}
inline void Store(float* to, __mmask16 mask, M512 a) {
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) to[i] = a.At(i);
  }
}
inline void Store(float* to, M512 a) { Store(to, 0xffff, a); }

inline M512 Add(M512 a, M512 b) {
  return ForEach([&](int i) { return a.At(i) + b.At(i); });
}
inline M512 Subtract(M512 a, M512 b) {
  return ForEach([&](int i) { return a.At(i) - b.At(i); });
}
inline M512 Multiply(M512 a, M512 b) {
  return ForEach([&](int i) { return a.At(i) * b.At(i); });
}
inline M512 Divide(M512 a, M512 b) {
  return ForEach([&](int i) { return a.At(i) / b.At(i); });
}
inline M512 Fma(M512 a, M512 b, M512 c) {
  return ForEach([&](int i) { return std::fma(a.At(i), b.At(i), c.At(i)); });
}
inline M512 Sqrt(M512 a) {
  return ForEach([&](int i) { return std::sqrt(a.At(i)); });
}

// VDPBF16PS as docs/numerics.md defines it: the odd elements first. The instruction flushes
// denormals whatever MXCSR says; here MXCSR does it.
inline M512 DotPairs(M512 c, M512 a, M512 b) {
  const auto odd = [](uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000); };
  const auto even = [](uint32_t pair) { return std::bit_cast<float>(pair << 16); };
  return ForEach([&](int i) {
    const float sum = std::fma(odd(a.bits[i]), odd(b.bits[i]), c.At(i));
    return std::fma(even(a.bits[i]), even(b.bits[i]), sum);
  });
}

inline __mmask16 Compare(M512 a, M512 b, int predicate) {
  uint32_t mask = 0;
  for (int i = 0; i < 16; ++i) {
    const float x = a.At(i);
    const float y = b.At(i);
    const bool holds = predicate == _CMP_LT_OQ   ? x < y
                       : predicate == _CMP_GT_OQ ? x > y
                       : predicate == _CMP_GE_OQ ? x >= y
                       : predicate == _CMP_EQ_OQ ? x == y
                                                 : x != x || y != y;  // _CMP_UNORD_Q
    mask |= static_cast<uint32_t>(holds) << i;
  }
  return static_cast<__mmask16>(mask);
}
// mask ? b : a.
inline M512 Blend(__mmask16 mask, M512 a, M512 b) {
  return ForEach([&](int i) { return (mask >> i & 1) != 0 ? b.bits[i] : a.bits[i]; });
}

inline M512 AddInt(M512 a, M512 b) {
  return ForEach([&](int i) { return a.bits[i] + b.bits[i]; });
}
inline M512 SubtractInt(M512 a, M512 b) {
  return ForEach([&](int i) { return a.bits[i] - b.bits[i]; });
}
inline M512 And(M512 a, M512 b) {
  return ForEach([&](int i) { return a.bits[i] & b.bits[i]; });
}
inline M512 Or(M512 a, M512 b) {
  return ForEach([&](int i) { return a.bits[i] | b.bits[i]; });
}
inline M512 Xor(M512 a, M512 b) {
  return ForEach([&](int i) { return a.bits[i] ^ b.bits[i]; });
}
inline M512 ShiftLeft(M512 a, int count) {
  return ForEach([&](int i) { return a.bits[i] << count; });
}
inline M512 ShiftRight(M512 a, int count) {
  return ForEach([&](int i) { return a.bits[i] >> count; });
}
inline M512 ShiftRightSigned(M512 a, int count) {
  return ForEach([&](int i) { return static_cast<int32_t>(a.bits[i]) >> count; });
}
inline M512 ToFloat(M512 a) {
  return ForEach([&](int i) { return static_cast<float>(static_cast<int32_t>(a.bits[i])); });
}

// Between 16 integers of 16 bits and 16 of 32.
inline M512 Extend(__m256i a) {
  uint16_t halves[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves), a);
  return ForEach([&](int i) { return static_cast<uint32_t>(halves[i]); });
}
inline __m256i Truncate(M512 a) {
  uint16_t halves[16];
  for (int i = 0; i < 16; ++i) halves[i] = static_cast<uint16_t>(a.bits[i]);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves));
}

// In each 128-bit lane: elements of a and b in turn, from the lane's element `first` on.
inline M512 Unpack(M512 a, M512 b, int first) {
  return ForEach([&](int i) {
    const int from = i / 4 * 4 + first + i % 4 / 2;
    return i % 2 == 0 ? a.bits[from] : b.bits[from];
  });
}
// In each 128-bit lane: two elements of a, two of b, that two bits of `control` each choose.
inline M512 Shuffle(M512 a, M512 b, int control) {
  return ForEach([&](int i) {
    const int from = i / 4 * 4 + (control >> 2 * (i % 4) & 3);
    return i % 4 < 2 ? a.bits[from] : b.bits[from];
  });
}
// Two 128-bit lanes of a, two of b, that two bits of `control` each choose.
inline M512 ShuffleLanes(M512 a, M512 b, int control) {
  return ForEach([&](int i) {
    const int from = (control >> 2 * (i / 4) & 3) * 4 + i % 4;
    return i / 4 < 2 ? a.bits[from] : b.bits[from];
  });
}

inline M512 Same(M512 a) { return a; }

}  // namespace lockstep::emulated

#define __m512 ::lockstep::emulated::M512
#define __m512i ::lockstep::emulated::M512
#define __m512bh ::lockstep::emulated::M512

#define _mm512_setzero_ps() ::lockstep::emulated::SetFloat(0.0f)
#define _mm512_set1_ps ::lockstep::emulated::SetFloat
#define _mm512_set1_epi32 ::lockstep::emulated::SetInt
#define _mm512_loadu_ps ::lockstep::emulated::Load
#define _mm512_maskz_loadu_ps(mask, from) ::lockstep::emulated::Load(from, mask)
#define _mm512_storeu_ps ::lockstep::emulated::Store
#define _mm512_mask_storeu_ps ::lockstep::emulated::Store
#define _mm512_add_ps ::lockstep::emulated::Add
#define _mm512_sub_ps ::lockstep::emulated::Subtract
#define _mm512_mul_ps ::lockstep::emulated::Multiply
#define _mm512_div_ps ::lockstep::emulated::Divide
#define _mm512_fmadd_ps ::lockstep::emulated::Fma
#define _mm512_sqrt_ps ::lockstep::emulated::Sqrt
#define _mm512_dpbf16_ps ::lockstep::emulated::DotPairs
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask ::lockstep::emulated::Compare
#define _mm512_mask_blend_ps ::lockstep::emulated::Blend
#define _mm512_add_epi32 ::lockstep::emulated::AddInt
#define _mm512_sub_epi32 ::lockstep::emulated::SubtractInt
#define _mm512_and_si512 ::lockstep::emulated::And
#define _mm512_or_si512 ::lockstep::emulated::Or
#define _mm512_xor_si512 ::lockstep::emulated::Xor
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 ::lockstep::emulated::ShiftLeft
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 ::lockstep::emulated::ShiftRight
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 ::lockstep::emulated::ShiftRightSigned
#define _mm512_castps_si512 ::lockstep::emulated::Same
#define _mm512_castsi512_ps ::lockstep::emulated::Same
#define _mm512_cvtepi32_ps ::lockstep::emulated::ToFloat
#define _mm512_cvtepu16_epi32 ::lockstep::emulated::Extend
#define _mm512_cvtepi32_epi16 ::lockstep::emulated::Truncate
#define _mm512_unpacklo_ps(a, b) ::lockstep::emulated::Unpack(a, b, 0)
#define _mm512_unpackhi_ps(a, b) ::lockstep::emulated::Unpack(a, b, 2)
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps ::lockstep::emulated::Shuffle
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 ::lockstep::emulated::ShuffleLanes

#endif  // LOCKSTEP_TESTS_KERNELS_CPU_EMULATED_AVX512_H_
