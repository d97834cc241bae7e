#include "core/model/kv_arena.h"

#include "core/base/check.h"

namespace lockstep {

KvArena::KvArena(const ModelConfig& config, kernels::Profile profile, int64_t layer_count,
                 int64_t page_count, int64_t page_size)
    : data_(layer_count * page_count * 2 * config.kv_width() * page_size *
            kernels::ElementBytes(profile)),
      profile_(profile),
      page_count_(page_count),
      page_size_(page_size),
      kv_heads_(config.kv_head_count),
      head_dim_(config.head_dim) {
  LOCKSTEP_CHECK(page_size > 0 && page_size % 8 == 0 && kernels::kAttentionBlock % page_size == 0)
      << "page size " << page_size;
}

kernels::KvPages KvArena::Layer(int64_t layer) {
  kernels::KvPages pages;
  pages.page_stride = 2 * kv_heads_ * head_dim_ * page_size_;
  pages.data =
      data_.data() + layer * page_count_ * pages.page_stride * kernels::ElementBytes(profile_);
  pages.page_size = page_size_;
  pages.kv_heads = kv_heads_;
  pages.head_dim = head_dim_;
  return pages;
}

}  // namespace lockstep
