#ifndef LOCKSTEP_KERNELS_CPU_DIGEST_H_
#define LOCKSTEP_KERNELS_CPU_DIGEST_H_

#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels/cpu/grain.h"
#include "kernels/digest_hash.h"
#include "kernels/parallel.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// The digest: integers, in vectors of 128 bits, which every x86-64 CPU has and which reach memory
// speed; without the prefetch, a page ahead, half of it. (Templates over V only so that each
// instruction set has a copy of its own.)

// The sums of the products of two pairs each, side by side.
template <class V>
struct PairSums {
  __m128i sums = {};

  [[gnu::always_inline]] void Add(__m128i x, const uint32_t* keys) {
    const __m128i keyed = _mm_add_epi32(x, _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys)));
    sums = _mm_add_epi64(sums, _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32)));
  }
  [[gnu::always_inline]] uint64_t Total() const {
    return static_cast<uint64_t>(sums[0]) + static_cast<uint64_t>(sums[1]);
  }
};

// What the block that begins at x adds. REQUIRES: kDigestBlock elements.
template <class V>
Digest128 DigestBlock(const float* x, uint64_t first_index) {
  constexpr int64_t kVectors = 2;  // under way at once: an addition waits for the one before it
  constexpr int64_t kLineElements = 16;
  PairSums<V> sums1[kVectors], sums2[kVectors];
  for (int64_t line = 0; line < kDigestBlock; line += kLineElements) {
    // The end may be nearer than a page: an address, and no pointer.
    const uintptr_t ahead = reinterpret_cast<uintptr_t>(x + line) + sizeof(float) * kDigestBlock;
    __builtin_prefetch(reinterpret_cast<const void*>(ahead));
    for (int64_t i = 0; i < kLineElements / 4; ++i) {
      const int64_t at = line + 4 * i;
      const __m128i bits = _mm_castps_si128(_mm_loadu_ps(x + at));
      sums1[i % kVectors].Add(bits, kDigestKeys1.of + at);
      sums2[i % kVectors].Add(bits, kDigestKeys2.of + at);
    }
  }
  return MixBlock(sums1[0].Total() + sums1[1].Total(), sums2[0].Total() + sums2[1].Total(),
                  first_index);
}

// The same of `count` elements, at most kDigestBlock, with +0 after them.
template <class V>
Digest128 DigestPadded(const float* x, int64_t count, uint64_t first_index) {
  float padded[kDigestBlock] = {};
  std::memcpy(padded, x, sizeof(float) * static_cast<size_t>(count));
  return DigestBlock<V>(padded, first_index);
}

template <class V>
Digest128 DigestTensor(Parallel& parallel, const float* x, int64_t n, uint64_t first_index) {
  // Elements with a partial sum of their own, so that ranges of threads meet no shared state.
  constexpr int64_t kPart = kGrainElements;
  static_assert(kPart % kDigestBlock == 0);
  const int64_t parts = (n + kPart - 1) / kPart;
  const std::unique_ptr<Digest128[]> sums(new Digest128[static_cast<size_t>(parts)]);
  parallel.For(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      int64_t i = part * kPart;
      const int64_t part_end = std::min(n, i + kPart);
      for (; i + kDigestBlock <= part_end; i += kDigestBlock) {
        sums[part] += DigestBlock<V>(x + i, first_index + static_cast<uint64_t>(i));
      }
      if (i < part_end) {
        sums[part] += DigestPadded<V>(x + i, part_end - i, first_index + static_cast<uint64_t>(i));
      }
    }
  });
  Digest128 digest;
  for (int64_t part = 0; part < parts; ++part) digest += sums[part];
  return digest;
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_DIGEST_H_
