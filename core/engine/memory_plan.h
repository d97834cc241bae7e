// What hosting one model takes up in memory: the sizes of what is allocated, part by part, not a
// measurement. Pure functions.
//
// Not in it: the process itself (some 50 MiB with gRPC), requests under way, and older weights that
// requests still pin, `weights` for each version.
#ifndef LOCKSTEP_CORE_ENGINE_MEMORY_PLAN_H_
#define LOCKSTEP_CORE_ENGINE_MEMORY_PLAN_H_

#include <cstdint>
#include <string>

#include "core/engine/engine_config.h"
#include "core/model/model_config.h"

namespace lockstep {

// Bytes, over all stages; P is the number of parameters, a tied embedding counted on both ends of a
// pipeline.
struct MemoryPlan {
  // Reserved from the start. Masters, weights and RoPE tables are filled then; large buffers of the
  // rest take up memory as they are first used (core/device/zeroed_memory.h): moments and gradients
  // by the first training call, KV pages by the sequences that get them.
  int64_t masters = 0;      // 4 P
  int64_t moments = 0;      // 8 P
  int64_t gradients = 0;    // 4 P, and 4 V H for the head's own of a tied model
  int64_t weights = 0;      // packed: 4 P, in profile bf16 2 P
  int64_t kv_pages = 0;     // kv_page_count pages of 2 L kv_width page_size elements
  int64_t rope_tables = 0;  // 4 context head_dim, on every stage
  int64_t head = 0;         // 128 rows of logits, and as many of hidden states
  // From the first step of generation.
  int64_t step_activations = 0;  // step_tokens_max rows of one layer, on every stage
  // While a training call runs.
  int64_t next_weights = 0;       // the next version, beside the one that serves
  int64_t micro_batch_rows = 0;   // the most rows of a micro-batch, unless one datum has more
  int64_t micro_batch_bytes = 0;  // what the stages keep of such micro-batches for the backward

  int64_t at_start() const {
    return masters + moments + gradients + weights + kv_pages + rope_tables + head;
  }
  int64_t serving() const { return at_start() + step_activations; }
  int64_t training() const { return serving() + next_weights + micro_batch_bytes; }
};

// One KV page, over all layers.
int64_t KvPageBytes(const EngineConfig& config, const ModelConfig& model);

// REQUIRES: `config` is resolved.
MemoryPlan PlanMemory(const EngineConfig& config, const ModelConfig& model);

// "1.91 GiB reserved at start (masters 0.50, moments 1.00, ...), ...".
std::string Describe(const MemoryPlan& plan);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_MEMORY_PLAN_H_
