#ifndef LOCKSTEP_KERNELS_DIGEST_HASH_H_
#define LOCKSTEP_KERNELS_DIGEST_HASH_H_

#include <cstdint>

#include "kernels/shapes.h"

namespace lockstep::kernels {

// The digest of a tensor: each block of kDigestBlock elements is hashed to 128 bits, and these are
// mixed with the block's place and added. docs/numerics.md, "Digest", says what it sees.

inline constexpr int64_t kDigestBlock = 1024;

// Xor-shift-multiply round trips over 64 bits, bijections. The two sets of constants are Stafford's
// variant 13 ("Better bit mixing", 2011, as in SplitMix64) and MurmurHash3's finaliser.
//
// Always inline, as is everything here that code compiled for one instruction set calls: a shared
// copy could have been compiled for another.
[[gnu::always_inline]] constexpr uint64_t MixStafford13(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
[[gnu::always_inline]] constexpr uint64_t MixMurmur3(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

// What SplitMix64 counts up by: an odd number, so that multiples of it are one to one.
inline constexpr uint64_t kPlaceStep = 0x9e3779b97f4a7c15u;

// Keys of the two hashes, one of each for every element of a block: the halves of SplitMix64's
// first numbers. (No std::array: its operator would be a function that all sets share.)
struct DigestKeys {
  uint32_t of[kDigestBlock] = {};
};
constexpr DigestKeys MakeDigestKeys(int shift) {
  DigestKeys keys;
  uint64_t place = 0;
  for (uint32_t& key : keys.of) {
    key = static_cast<uint32_t>(MixStafford13(place += kPlaceStep) >> shift);
  }
  return keys;
}
inline constexpr DigestKeys kDigestKeys1 = MakeDigestKeys(32);
inline constexpr DigestKeys kDigestKeys2 = MakeDigestKeys(0);

// What elements i and i + 1 of a block, as raw bits, add to the hash with these keys: NH (Black et
// al., "UMAC: Fast and Secure Message Authentication", CRYPTO 1999, section 4.1).
[[gnu::always_inline]] constexpr uint64_t PairProduct(uint32_t a, uint32_t b,
                                                      const DigestKeys& keys, int64_t i) {
  return static_cast<uint64_t>(a + keys.of[i]) * static_cast<uint32_t>(b + keys.of[i + 1]);
}

constexpr uint64_t HashOfZeros(const DigestKeys& keys) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < kDigestBlock; i += 2) sum += PairProduct(0, 0, keys, i);
  return sum;
}

// What a block adds to the digest, from the sums of its pairs' products with either keys: one to
// one in the sums, and 0 for those of zeros, so that a digest of +0 is 0 without a look at them.
[[gnu::always_inline]] inline Digest128 MixBlock(uint64_t sum1, uint64_t sum2,
                                                 uint64_t first_index) {
  constexpr uint64_t kZeros1 = HashOfZeros(kDigestKeys1);
  constexpr uint64_t kZeros2 = HashOfZeros(kDigestKeys2);
  const uint64_t place = (first_index + 1) * kPlaceStep;
  return {.low = MixStafford13(place ^ sum1) - MixStafford13(place ^ kZeros1),
          .high = MixMurmur3(place ^ sum2) - MixMurmur3(place ^ kZeros2)};
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_DIGEST_HASH_H_
