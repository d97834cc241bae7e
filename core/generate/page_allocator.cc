#include "core/generate/page_allocator.h"

#include "core/base/check.h"

namespace lockstep {

PageAllocator::PageAllocator(int64_t page_count) : used_(page_count, false) {
  for (int64_t id = page_count - 1; id >= 0; --id) free_.push_back(static_cast<int32_t>(id));
}

std::optional<std::vector<int32_t>> PageAllocator::Allocate(int64_t count) {
  if (count > static_cast<int64_t>(free_.size())) return std::nullopt;
  std::vector<int32_t> pages;
  for (int64_t i = 0; i < count; ++i) {
    pages.push_back(free_.back());
    free_.pop_back();
    used_[pages.back()] = true;
  }
  return pages;
}

void PageAllocator::Free(const std::vector<int32_t>& pages) {
  for (const int32_t page : pages) {
    LOCKSTEP_CHECK(page >= 0 && page < page_count() && used_[page]) << "page " << page;
    used_[page] = false;
    free_.push_back(page);
  }
}

}  // namespace lockstep
