// Hands out the ids of a fixed number of KV pages. The engine alone assigns ids; every stage holds
// the page of an id for its own layers.
//
// Not synchronised.
#ifndef LOCKSTEP_CORE_GENERATE_PAGE_ALLOCATOR_H_
#define LOCKSTEP_CORE_GENERATE_PAGE_ALLOCATOR_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

class PageAllocator {
 public:
  explicit PageAllocator(int64_t page_count);

  // Nothing when fewer than `count` pages are free.
  std::optional<std::vector<int32_t>> Allocate(int64_t count);
  // REQUIRES: every id is allocated.
  void Free(const std::vector<int32_t>& pages);

  int64_t page_count() const { return static_cast<int64_t>(used_.size()); }
  int64_t in_use() const { return page_count() - static_cast<int64_t>(free_.size()); }

 private:
  std::vector<int32_t> free_;  // the next to go at the back
  std::vector<bool> used_;     // by id: catches a page freed twice
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_GENERATE_PAGE_ALLOCATOR_H_
