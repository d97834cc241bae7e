#ifndef LOCKSTEP_KERNELS_DIGEST_MIX_H_
#define LOCKSTEP_KERNELS_DIGEST_MIX_H_

#include <bit>
#include <cstdint>

#include "kernels/shapes.h"

namespace lockstep::kernels {

// One xor-shift-multiply round trip over 64 bits, a bijection. The two sets of constants are
// Stafford's variant 13 ("Better bit mixing", 2011, as in SplitMix64) and MurmurHash3's finaliser.
//
// `Word` is uint64_t, or a vector of them that is mixed lane by lane. In place, because a vector
// that is wider than the baseline's is no argument or result of a function compiled for it.
template <typename Word>
[[gnu::always_inline]] constexpr void Stafford13(Word& x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
}
template <typename Word>
[[gnu::always_inline]] constexpr void Murmur3(Word& x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  x ^= x >> 33;
}
constexpr uint64_t MixStafford13(uint64_t x) {
  Stafford13(x);
  return x;
}
constexpr uint64_t MixMurmur3(uint64_t x) {
  Murmur3(x);
  return x;
}

// What SplitMix64 counts up by: an odd number, so that multiples of it are one to one.
inline constexpr uint64_t kPlaceStep = 0x9e3779b97f4a7c15u;

// What element `index` with value x adds to a digest: nothing if it is +0, else two mixtures of its
// raw bits and its place. So a digest of zeros is zero without a look at them, -0 is not +0, and of
// the rest the map from (bits, index) to 128 bits is one to one: equal low words and equal high
// words together force equal upper and lower halves of `place`, hence equal indices, hence equal
// bits.
inline Digest128 MixElement(float x, uint64_t index) {
  const uint64_t bits = std::bit_cast<uint32_t>(x);
  if (bits == 0) return {};
  const uint64_t place = (index + 1) * kPlaceStep;
  return {.low = MixStafford13(place ^ bits), .high = MixMurmur3(place ^ (bits << 32))};
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_DIGEST_MIX_H_
