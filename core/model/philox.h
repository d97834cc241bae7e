#ifndef LOCKSTEP_CORE_MODEL_PHILOX_H_
#define LOCKSTEP_CORE_MODEL_PHILOX_H_

#include <array>
#include <cstdint>

namespace lockstep {

// The random numbers of the system: Philox4x32-10, a bijection of a 128-bit counter under a 64-bit
// key (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"). There is
// no state, so a number depends on the seed and on what it is for, never on what was drawn before.
// Integers only: the same on every machine. Safe from any thread.
std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key);

// The block at (position, sample_index) under `seed`; words ascending. The counter is position
// (low word first), then sample_index.
std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t position, uint64_t sample_index);

// Uniform in [0, 1), a multiple of 2^-53, from the first two words of that block.
double PhiloxUniform(uint64_t seed, uint64_t position, uint64_t sample_index);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_PHILOX_H_
