// Host memory that starts zeroed, for Buffer.
//
// Large blocks are the kernel's zero pages: nothing is written here, and a page takes up memory
// when it is first written. So a start costs what it fills, not what it reserves, and threads that
// fill a block together share the cost of its pages. They are huge pages where the system gives
// them on request (transparent_hugepage: madvise or always).
#ifndef LOCKSTEP_CORE_DEVICE_ZEROED_MEMORY_H_
#define LOCKSTEP_CORE_DEVICE_ZEROED_MEMORY_H_

#include <cstddef>

namespace lockstep {

// `bytes` zeros, aligned to a cache line. Memory that runs out ends the process. REQUIRES: bytes is
// positive.
void* AllocateZeroed(size_t bytes);

// REQUIRES: AllocateZeroed(bytes) returned it.
void FreeZeroed(void* memory, size_t bytes);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_DEVICE_ZEROED_MEMORY_H_
