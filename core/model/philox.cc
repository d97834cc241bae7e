#include "core/model/philox.h"

namespace lockstep {
namespace {

constexpr int kRounds = 10;
// Multipliers and key increments (the golden ratio and sqrt(3) - 1) of the paper's table 2.
constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyIncrement0 = 0x9E3779B9;
constexpr uint32_t kKeyIncrement1 = 0xBB67AE85;

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) {
  std::array<uint32_t, 4> x = counter;
  uint32_t key0 = key[0];
  uint32_t key1 = key[1];
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * x[0];
    const uint64_t product1 = kMultiplier1 * x[2];
    x = {High(product1) ^ x[1] ^ key0, Low(product1), High(product0) ^ x[3] ^ key1, Low(product0)};
    key0 += kKeyIncrement0;
    key1 += kKeyIncrement1;
  }
  return x;
}

std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t position, uint64_t sample_index) {
  return Philox4x32({Low(position), High(position), Low(sample_index), High(sample_index)},
                    {Low(seed), High(seed)});
}

double PhiloxUniform(uint64_t seed, uint64_t position, uint64_t sample_index) {
  const std::array<uint32_t, 4> block = PhiloxBlock(seed, position, sample_index);
  const uint64_t bits = (static_cast<uint64_t>(block[1]) << 32 | block[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace lockstep
