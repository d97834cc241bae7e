#ifndef LOCKSTEP_CORE_MODEL_KV_ARENA_H_
#define LOCKSTEP_CORE_MODEL_KV_ARENA_H_

#include <cstdint>

#include "core/device/buffer.h"
#include "core/model/model_config.h"
#include "kernels/shapes.h"

namespace lockstep {

// The KV pages of one stage's layers: page ids are assigned by the engine (inference) or trivially
// (training, one arena per micro-batch in flight). Pages start zeroed and are not cleared when
// they change hands: attention reads a position only after it was written.
//
// Owned by the stage's thread. Not synchronised.
class KvArena {
 public:
  KvArena() = default;
  KvArena(const ModelConfig& config, kernels::Profile profile, int64_t layer_count,
          int64_t page_count, int64_t page_size);

  // `layer` counts from the stage's first.
  kernels::KvPages Layer(int64_t layer);
  int64_t page_count() const { return page_count_; }
  int64_t page_size() const { return page_size_; }

 private:
  // [layers][pages][2][kv_heads * head_dim * page_size] elements of the profile
  Buffer<uint8_t> data_;
  kernels::Profile profile_ = kernels::Profile::kFp32;
  int64_t page_count_ = 0;
  int64_t page_size_ = 0;
  int64_t kv_heads_ = 0;
  int64_t head_dim_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_KV_ARENA_H_
