#include "core/device/zeroed_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr size_t kAlignment = 64;

// glibc's malloc keeps smaller blocks for the next caller and maps larger ones afresh every time
// (DEFAULT_MMAP_THRESHOLD_MAX), so nothing that it would have reused is given up.
constexpr size_t kMappedBytesMin = size_t{32} << 20;

}  // namespace

void* AllocateZeroed(size_t bytes) {
  if (bytes >= kMappedBytesMin) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LOCKSTEP_CHECK(memory != MAP_FAILED) << "out of memory mapping " << bytes << " bytes";
    (void)::madvise(memory, bytes, MADV_HUGEPAGE);  // a kernel without them serves small pages
    return memory;
  }
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  LOCKSTEP_CHECK(memory != nullptr) << "out of memory allocating " << rounded << " bytes";
  std::memset(memory, 0, rounded);
  return memory;
}

void FreeZeroed(void* memory, size_t bytes) {
  if (bytes >= kMappedBytesMin) {
    LOCKSTEP_CHECK_EQ(::munmap(memory, bytes), 0);
  } else {
    std::free(memory);
  }
}

}  // namespace lockstep
