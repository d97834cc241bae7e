#ifndef LOCKSTEP_KERNELS_CPU_SIMD_AVX2_H_
#define LOCKSTEP_KERNELS_CPU_SIMD_AVX2_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace lockstep::kernels::avx2 {

// Eight fp32 lanes: the vector type that kernels/cpu is instantiated with for AVX2 + FMA. Another
// instruction set is another type with these members; the kernels know only these, and the number
// of lanes never enters an order of additions.
//
// Every function here and every template over these types lives in a namespace of its own
// instruction set, so that no inline function compiled with -mavx2 can be picked by the linker for
// baseline code.

struct Mask8 {
  __m256 raw;

  // Lanes [0, count) are set. count in [0, 8].
  static Mask8 First(int64_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {
        _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane))};
  }
};

struct I32x8 {
  __m256i raw;

  static I32x8 Broadcast(int32_t value) { return {_mm256_set1_epi32(value)}; }
};

inline I32x8 operator+(I32x8 a, I32x8 b) { return {_mm256_add_epi32(a.raw, b.raw)}; }
inline I32x8 operator-(I32x8 a, I32x8 b) { return {_mm256_sub_epi32(a.raw, b.raw)}; }
inline I32x8 operator&(I32x8 a, I32x8 b) { return {_mm256_and_si256(a.raw, b.raw)}; }
inline I32x8 operator|(I32x8 a, I32x8 b) { return {_mm256_or_si256(a.raw, b.raw)}; }
template <int kBits>
inline I32x8 ShiftLeft(I32x8 a) {
  return {_mm256_slli_epi32(a.raw, kBits)};
}
// Sign-extending.
template <int kBits>
inline I32x8 ShiftRight(I32x8 a) {
  return {_mm256_srai_epi32(a.raw, kBits)};
}

struct F32x8 {
  using Mask = Mask8;
  using Int = I32x8;

  static constexpr int64_t kLanes = 8;
  // Rows of a matrix product's register tile: 3 rows x 4 vectors of sums, 3 broadcasts and one
  // vector of weights are the 16 registers.
  static constexpr int64_t kTileRows = 3;
  // The same where weights are widened from bf16: with 3 rows gcc keeps sums in memory, at half the
  // speed.
  static constexpr int64_t kTileRowsWidening = 2;
  // Attention's tile: 6 rows x 2 vectors of sums, 2 vectors and a broadcast, or 3 x 4.
  static constexpr int64_t kAttentionRows = 6;
  static constexpr int64_t kAttentionChains = 12;

  __m256 raw;

  static F32x8 Zero() { return {_mm256_setzero_ps()}; }
  static F32x8 Broadcast(float value) { return {_mm256_set1_ps(value)}; }
  static F32x8 Load(const float* from) { return {_mm256_loadu_ps(from)}; }
  // Lanes from `count` on are +0; their memory is not touched.
  static F32x8 LoadFirst(const float* from, int64_t count) {
    return {_mm256_maskload_ps(from, _mm256_castps_si256(Mask::First(count).raw))};
  }
  // Numbers in bf16, widened.
  static F32x8 LoadBf16(const uint16_t* from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))};
  }
  static F32x8 LoadFirstBf16(const uint16_t* from, int64_t count) {
    uint16_t first[kLanes] = {};
    std::memcpy(first, from, static_cast<size_t>(count) * sizeof(uint16_t));
    return LoadBf16(first);
  }
  void Store(float* to) const { _mm256_storeu_ps(to, raw); }
  // Only lanes [0, count) are written.
  void StoreFirst(float* to, int64_t count) const {
    _mm256_maskstore_ps(to, _mm256_castps_si256(Mask::First(count).raw), raw);
  }
  // The upper halves: numbers in bf16.
  void StoreBf16(uint16_t* to) const {
    const __m256i halves = _mm256_srli_epi32(_mm256_castps_si256(raw), 16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
  }
  void StoreFirstBf16(uint16_t* to, int64_t count) const {
    uint16_t all[kLanes];
    StoreBf16(all);
    std::memcpy(to, all, static_cast<size_t>(count) * sizeof(uint16_t));
  }
};

inline F32x8 operator+(F32x8 a, F32x8 b) { return {_mm256_add_ps(a.raw, b.raw)}; }
inline F32x8 operator-(F32x8 a, F32x8 b) { return {_mm256_sub_ps(a.raw, b.raw)}; }
inline F32x8 operator*(F32x8 a, F32x8 b) { return {_mm256_mul_ps(a.raw, b.raw)}; }
inline F32x8 operator/(F32x8 a, F32x8 b) { return {_mm256_div_ps(a.raw, b.raw)}; }
// a * b + c, rounded once.
inline F32x8 Fma(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fmadd_ps(a.raw, b.raw, c.raw)}; }
inline F32x8 Sqrt(F32x8 a) { return {_mm256_sqrt_ps(a.raw)}; }
// The sign bit flipped, of zeros and NaN too.
inline F32x8 operator-(F32x8 a) { return {_mm256_xor_ps(a.raw, _mm256_set1_ps(-0.0f))}; }

// Ordered comparisons: false where either is NaN.
inline Mask8 operator<(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.raw, b.raw, _CMP_LT_OQ)}; }
inline Mask8 operator>(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.raw, b.raw, _CMP_GT_OQ)}; }
inline Mask8 operator>=(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.raw, b.raw, _CMP_GE_OQ)}; }
inline Mask8 operator==(F32x8 a, F32x8 b) { return {_mm256_cmp_ps(a.raw, b.raw, _CMP_EQ_OQ)}; }
inline Mask8 IsNan(F32x8 a) { return {_mm256_cmp_ps(a.raw, a.raw, _CMP_UNORD_Q)}; }

// Lane by lane: mask ? a : b.
inline F32x8 Select(Mask8 mask, F32x8 a, F32x8 b) {
  return {_mm256_blendv_ps(b.raw, a.raw, mask.raw)};
}

inline I32x8 BitsOf(F32x8 a) { return {_mm256_castps_si256(a.raw)}; }
inline F32x8 FromBits(I32x8 a) { return {_mm256_castsi256_ps(a.raw)}; }
// Exact for |a| < 2^24.
inline F32x8 ToFloat(I32x8 a) { return {_mm256_cvtepi32_ps(a.raw)}; }

// to[c * to_stride + r] = from[r * from_stride + c], r and c in [0, 8). Moves bits only.
inline void TransposeSquare(F32x8 /*lanes*/, const float* from, int64_t from_stride, float* to,
                            int64_t to_stride) {
  // Rows r and r + 4 share a register, so two rounds of in-lane shuffles suffice.
  __m256 pair[4][2];
  for (int r = 0; r < 4; ++r) {
    for (int half = 0; half < 2; ++half) {
      pair[r][half] = _mm256_insertf128_ps(
          _mm256_castps128_ps256(_mm_loadu_ps(from + r * from_stride + 4 * half)),
          _mm_loadu_ps(from + (r + 4) * from_stride + 4 * half), 1);
    }
  }
  for (int half = 0; half < 2; ++half) {
    const __m256 low01 = _mm256_unpacklo_ps(pair[0][half], pair[1][half]);
    const __m256 high01 = _mm256_unpackhi_ps(pair[0][half], pair[1][half]);
    const __m256 low23 = _mm256_unpacklo_ps(pair[2][half], pair[3][half]);
    const __m256 high23 = _mm256_unpackhi_ps(pair[2][half], pair[3][half]);
    float* rows = to + 4 * half * to_stride;
    _mm256_storeu_ps(rows, _mm256_shuffle_ps(low01, low23, 0x44));
    _mm256_storeu_ps(rows + to_stride, _mm256_shuffle_ps(low01, low23, 0xee));
    _mm256_storeu_ps(rows + 2 * to_stride, _mm256_shuffle_ps(high01, high23, 0x44));
    _mm256_storeu_ps(rows + 3 * to_stride, _mm256_shuffle_ps(high01, high23, 0xee));
  }
}

}  // namespace lockstep::kernels::avx2

#endif  // LOCKSTEP_KERNELS_CPU_SIMD_AVX2_H_
