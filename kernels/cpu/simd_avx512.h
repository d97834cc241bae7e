#ifndef LOCKSTEP_KERNELS_CPU_SIMD_AVX512_H_
#define LOCKSTEP_KERNELS_CPU_SIMD_AVX512_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace lockstep::kernels::avx512 {

// Sixteen fp32 lanes: the vector type of kernels/cpu for AVX-512 (its foundation, AVX512F, alone),
// with the members of avx2::F32x8 (simd_avx2.h), and DotPairs for CPUs with AVX512_BF16.
//
// Set is a tag. What is compiled with other flags, or with other intrinsics (the emulation in
// tests/kernels/cpu), has a tag of its own, so that no inline function compiled for one set can be
// picked by the linker for another.
struct Foundation;
struct WithBf16;

template <class Set>
struct Mask16 {
  __mmask16 raw;

  // Lanes [0, count) are set. count in [0, 16].
  static Mask16 First(int64_t count) { return {static_cast<__mmask16>((1u << count) - 1)}; }
};

template <class Set>
struct I32x16 {
  __m512i raw;

  static I32x16 Broadcast(int32_t value) { return {_mm512_set1_epi32(value)}; }
};

template <class Set>
inline I32x16<Set> operator+(I32x16<Set> a, I32x16<Set> b) {
  return {_mm512_add_epi32(a.raw, b.raw)};
}
template <class Set>
inline I32x16<Set> operator-(I32x16<Set> a, I32x16<Set> b) {
  return {_mm512_sub_epi32(a.raw, b.raw)};
}
template <class Set>
inline I32x16<Set> operator&(I32x16<Set> a, I32x16<Set> b) {
  return {_mm512_and_si512(a.raw, b.raw)};
}
template <class Set>
inline I32x16<Set> operator|(I32x16<Set> a, I32x16<Set> b) {
  return {_mm512_or_si512(a.raw, b.raw)};
}
template <int kBits, class Set>
inline I32x16<Set> ShiftLeft(I32x16<Set> a) {
  return {_mm512_slli_epi32(a.raw, kBits)};
}
// Sign-extending.
template <int kBits, class Set>
inline I32x16<Set> ShiftRight(I32x16<Set> a) {
  return {_mm512_srai_epi32(a.raw, kBits)};
}

template <class Set>
struct F32x16 {
  using Mask = Mask16<Set>;
  using Int = I32x16<Set>;

  static constexpr int64_t kLanes = 16;
  // Rows of a matrix product's register tile: 12 rows x 2 vectors of sums, two vectors of weights
  // and a broadcast leave 5 of the 32 registers.
  static constexpr int64_t kTileRows = 12;
  static constexpr int64_t kTileRowsWidening = 12;
  // Attention's tile: 6 rows x 4 vectors of sums, 4 vectors and a broadcast, or 3 x 8.
  static constexpr int64_t kAttentionRows = 6;
  static constexpr int64_t kAttentionChains = 24;

  __m512 raw;

  static F32x16 Zero() { return {_mm512_setzero_ps()}; }
  static F32x16 Broadcast(float value) { return {_mm512_set1_ps(value)}; }
  static F32x16 Load(const float* from) { return {_mm512_loadu_ps(from)}; }
  // Lanes from `count` on are +0; their memory is not touched.
  static F32x16 LoadFirst(const float* from, int64_t count) {
    return {_mm512_maskz_loadu_ps(Mask::First(count).raw, from)};
  }
  // Numbers in bf16, widened.
  static F32x16 LoadBf16(const uint16_t* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
  }
  static F32x16 LoadFirstBf16(const uint16_t* from, int64_t count) {
    uint16_t first[kLanes] = {};
    std::memcpy(first, from, static_cast<size_t>(count) * sizeof(uint16_t));
    return LoadBf16(first);
  }
  void Store(float* to) const { _mm512_storeu_ps(to, raw); }
  // Only lanes [0, count) are written.
  void StoreFirst(float* to, int64_t count) const {
    _mm512_mask_storeu_ps(to, Mask::First(count).raw, raw);
  }
  // The upper halves: numbers in bf16.
  void StoreBf16(uint16_t* to) const {
    const __m512i halves = _mm512_srli_epi32(_mm512_castps_si512(raw), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(halves));
  }
  void StoreFirstBf16(uint16_t* to, int64_t count) const {
    uint16_t all[kLanes];
    StoreBf16(all);
    std::memcpy(to, all, static_cast<size_t>(count) * sizeof(uint16_t));
  }
};

template <class Set>
inline F32x16<Set> operator+(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_add_ps(a.raw, b.raw)};
}
template <class Set>
inline F32x16<Set> operator-(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_sub_ps(a.raw, b.raw)};
}
template <class Set>
inline F32x16<Set> operator*(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_mul_ps(a.raw, b.raw)};
}
template <class Set>
inline F32x16<Set> operator/(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_div_ps(a.raw, b.raw)};
}
// a * b + c, rounded once.
template <class Set>
inline F32x16<Set> Fma(F32x16<Set> a, F32x16<Set> b, F32x16<Set> c) {
  return {_mm512_fmadd_ps(a.raw, b.raw, c.raw)};
}
// Lanes of a and b hold (even, odd) pairs of bf16: fma(even, fma(odd, c)), denormals flushed
// whatever MXCSR says.
template <class Set>
inline F32x16<Set> DotPairs(F32x16<Set> a, F32x16<Set> b, F32x16<Set> c) {
  return {_mm512_dpbf16_ps(c.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
}
template <class Set>
inline F32x16<Set> Sqrt(F32x16<Set> a) {
  return {_mm512_sqrt_ps(a.raw)};
}
// The sign bit flipped, of zeros and NaN too.
template <class Set>
inline F32x16<Set> operator-(F32x16<Set> a) {
  return FromBits(I32x16<Set>{_mm512_xor_si512(_mm512_castps_si512(a.raw),
                                               _mm512_set1_epi32(static_cast<int>(0x80000000)))});
}

// Ordered comparisons: false where either is NaN.
template <class Set>
inline Mask16<Set> operator<(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_LT_OQ)};
}
template <class Set>
inline Mask16<Set> operator>(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_GT_OQ)};
}
template <class Set>
inline Mask16<Set> operator>=(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_GE_OQ)};
}
template <class Set>
inline Mask16<Set> operator==(F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_EQ_OQ)};
}
template <class Set>
inline Mask16<Set> IsNan(F32x16<Set> a) {
  return {_mm512_cmp_ps_mask(a.raw, a.raw, _CMP_UNORD_Q)};
}

// Lane by lane: mask ? a : b.
template <class Set>
inline F32x16<Set> Select(Mask16<Set> mask, F32x16<Set> a, F32x16<Set> b) {
  return {_mm512_mask_blend_ps(mask.raw, b.raw, a.raw)};
}

template <class Set>
inline I32x16<Set> BitsOf(F32x16<Set> a) {
  return {_mm512_castps_si512(a.raw)};
}
template <class Set>
inline F32x16<Set> FromBits(I32x16<Set> a) {
  return {_mm512_castsi512_ps(a.raw)};
}
// Exact for |a| < 2^24.
template <class Set>
inline F32x16<Set> ToFloat(I32x16<Set> a) {
  return {_mm512_cvtepi32_ps(a.raw)};
}

// to[c * to_stride + r] = from[r * from_stride + c], r and c in [0, 16). Moves bits only.
template <class Set>
inline void TransposeSquare(F32x16<Set> /*lanes*/, const float* from, int64_t from_stride,
                            float* to, int64_t to_stride) {
  // quad[g][j]: 128-bit lane l holds column 4 l + j of rows 4 g .. 4 g + 3.
  __m512 quad[4][4];
  for (int g = 0; g < 4; ++g) {
    const float* rows = from + 4 * g * from_stride;
    const __m512 row0 = _mm512_loadu_ps(rows);
    const __m512 row1 = _mm512_loadu_ps(rows + from_stride);
    const __m512 row2 = _mm512_loadu_ps(rows + 2 * from_stride);
    const __m512 row3 = _mm512_loadu_ps(rows + 3 * from_stride);
    const __m512 low01 = _mm512_unpacklo_ps(row0, row1);
    const __m512 high01 = _mm512_unpackhi_ps(row0, row1);
    const __m512 low23 = _mm512_unpacklo_ps(row2, row3);
    const __m512 high23 = _mm512_unpackhi_ps(row2, row3);
    quad[g][0] = _mm512_shuffle_ps(low01, low23, 0x44);
    quad[g][1] = _mm512_shuffle_ps(low01, low23, 0xee);
    quad[g][2] = _mm512_shuffle_ps(high01, high23, 0x44);
    quad[g][3] = _mm512_shuffle_ps(high01, high23, 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    // 128-bit lanes 0 and 2, then 1 and 3, of the upper and the lower eight rows.
    const __m512 even_upper = _mm512_shuffle_f32x4(quad[0][j], quad[1][j], 0x88);
    const __m512 even_lower = _mm512_shuffle_f32x4(quad[2][j], quad[3][j], 0x88);
    const __m512 odd_upper = _mm512_shuffle_f32x4(quad[0][j], quad[1][j], 0xdd);
    const __m512 odd_lower = _mm512_shuffle_f32x4(quad[2][j], quad[3][j], 0xdd);
    float* columns = to + j * to_stride;
    _mm512_storeu_ps(columns, _mm512_shuffle_f32x4(even_upper, even_lower, 0x88));
    _mm512_storeu_ps(columns + 4 * to_stride, _mm512_shuffle_f32x4(odd_upper, odd_lower, 0x88));
    _mm512_storeu_ps(columns + 8 * to_stride, _mm512_shuffle_f32x4(even_upper, even_lower, 0xdd));
    _mm512_storeu_ps(columns + 12 * to_stride, _mm512_shuffle_f32x4(odd_upper, odd_lower, 0xdd));
  }
}

}  // namespace lockstep::kernels::avx512

#endif  // LOCKSTEP_KERNELS_CPU_SIMD_AVX512_H_
