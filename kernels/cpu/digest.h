#ifndef LOCKSTEP_KERNELS_CPU_DIGEST_H_
#define LOCKSTEP_KERNELS_CPU_DIGEST_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels/digest_mix.h"
#include "kernels/parallel.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// The digest, in vectors of 64-bit integers that the compiler maps to what a set has. (Templates
// over V only so that each instruction set has a copy of its own.)

// Elements side by side in a vector, and vectors under way at once: a mixer is a chain of some
// twenty instructions that wait for each other. Four are 2.4 times as fast on AVX2 as scalar code,
// one is 1.6 times.
inline constexpr int64_t kDigestLanes = 4;
inline constexpr int64_t kDigestVectors = 4;
inline constexpr int64_t kDigestStep = kDigestVectors * kDigestLanes;

// Elements with a partial sum of their own, so that ranges of threads meet no shared state, and so
// few that sums of 32-bit halves do not overflow.
inline constexpr int64_t kDigestBlock = 1 << 16;

// The sum of MixElement(x[i], first_index + i). REQUIRES: count is a multiple of kDigestStep, at
// most kDigestBlock.
template <class V>
Digest128 DigestSteps(const float* x, int64_t count, uint64_t first_index) {
  using Words [[gnu::vector_size(8 * kDigestLanes)]] = uint64_t;
  using Bits [[gnu::vector_size(4 * kDigestLanes)]] = uint32_t;
  Words low_halves = {};  // of the digest's low word, which may carry into the high one
  Words high_halves = {};
  Words highs = {};
  Words place[kDigestVectors];
  for (int64_t v = 0; v < kDigestVectors; ++v) {
    for (int64_t lane = 0; lane < kDigestLanes; ++lane) {
      place[v][lane] = (first_index + v * kDigestLanes + lane + 1) * kPlaceStep;
    }
  }
  for (int64_t i = 0; i < count; i += kDigestStep) {
    for (int64_t v = 0; v < kDigestVectors; ++v) {
      Bits loaded;
      std::memcpy(&loaded, x + i + v * kDigestLanes, sizeof(loaded));
      const Words bits = __builtin_convertvector(loaded, Words);
      const Words counts = reinterpret_cast<Words>(bits != 0);
      Words low = place[v] ^ bits;
      Stafford13(low);
      low &= counts;
      low_halves += low & 0xffffffff;
      high_halves += low >> 32;
      Words high = place[v] ^ (bits << 32);
      Murmur3(high);
      highs += high & counts;
      place[v] += kDigestStep * kPlaceStep;
    }
  }
  Digest128 digest;
  for (int64_t lane = 0; lane < kDigestLanes; ++lane) {
    digest += {.low = low_halves[lane], .high = highs[lane]};
    digest += {.low = high_halves[lane] << 32, .high = high_halves[lane] >> 32};
  }
  return digest;
}

// The sum of MixElement(x[i], first_index + i) for i in [0, n).
template <class V>
Digest128 DigestElements(Parallel& parallel, const float* x, int64_t n, uint64_t first_index) {
  const int64_t blocks = (n + kDigestBlock - 1) / kDigestBlock;
  const std::unique_ptr<Digest128[]> partials(new Digest128[static_cast<size_t>(blocks)]);
  parallel.For(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kDigestBlock;
      const int64_t count = std::min(kDigestBlock, n - first);
      const int64_t whole = count / kDigestStep * kDigestStep;
      Digest128 sum = DigestSteps<V>(x + first, whole, first_index + first);
      for (int64_t i = first + whole; i < first + count; ++i) {
        sum += MixElement(x[i], first_index + i);
      }
      partials[block] = sum;
    }
  });
  Digest128 digest;
  for (int64_t block = 0; block < blocks; ++block) digest += partials[block];
  return digest;
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_DIGEST_H_
