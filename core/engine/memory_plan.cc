#include "core/engine/memory_plan.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "core/model/forward.h"
#include "core/model/head.h"
#include "core/model/param_spec.h"
#include "core/model/stage_weights.h"
#include "core/train/micro_batches.h"
#include "kernels/shapes.h"

namespace lockstep {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// What a stage keeps of one training micro-batch from its forward to its backward: activations,
// K and V, and the hidden states that come in or go out.
int64_t InFlightBytes(const ModelConfig& model, const StageRange& range, kernels::Profile profile,
                      int64_t rows) {
  const int64_t layers = range.layer_end - range.layer_begin;
  const int64_t kv = 2 * model.kv_width() * kernels::ElementBytes(profile);
  return rows * (layers * (LayerActivations::FloatsPerRow(model) * kFloatBytes + kv) +
                 model.hidden_size * kFloatBytes);
}

}  // namespace

int64_t KvPageBytes(const EngineConfig& config, const ModelConfig& model) {
  return 2 * model.layer_count * model.kv_width() * config.kv_page_size *
         kernels::ElementBytes(config.profile);
}

MemoryPlan PlanMemory(const EngineConfig& config, const ModelConfig& model) {
  MemoryPlan plan;
  plan.micro_batch_rows = kMicroBatchRowsMax;
  const std::vector<StageRange> ranges = SplitStages(model, config.stages);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const StageRange& range = ranges[i];
    int64_t parameters = 0;
    for (const ParamSpec& spec : StageParams(model, range)) parameters += spec.size();
    plan.masters += parameters * kFloatBytes;
    plan.moments += 2 * parameters * kFloatBytes;
    plan.gradients += parameters * kFloatBytes;
    if (range.last && model.tie_word_embeddings) {
      plan.gradients += model.vocab_size * model.hidden_size * kFloatBytes;
    }
    plan.weights += StageWeightsBytes(model, range, config.profile);
    plan.rope_tables += model.context_length_max * model.head_dim * kFloatBytes;
    if (range.last) {
      plan.head = kHeadRows * (model.vocab_size + 3 * model.hidden_size) * kFloatBytes;
    }
    plan.step_activations += config.step_tokens_max *
                             (LayerActivations::FloatsPerRow(model) + model.hidden_size) *
                             kFloatBytes;
    // 1F1B: stage i has at most this many micro-batches between forward and backward.
    const int64_t in_flight = static_cast<int64_t>(ranges.size() - i);
    plan.micro_batch_bytes +=
        in_flight * InFlightBytes(model, range, config.profile, plan.micro_batch_rows) +
        plan.micro_batch_rows * LayerGradients::FloatsPerRow(model) * kFloatBytes;
  }
  plan.next_weights = plan.weights;
  plan.kv_pages = config.kv_page_count * KvPageBytes(config, model);
  return plan;
}

std::string Describe(const MemoryPlan& plan) {
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); };
  return absl::StrFormat(
      "%.2f GiB reserved at start (masters %.2f, moments %.2f, gradients %.2f, weights %.2f, KV "
      "pages %.2f, RoPE tables %.2f, head %.2f), %.2f with a step of generation, %.2f while "
      "training on "
      "micro-batches of %d rows",
      gib(plan.at_start()), gib(plan.masters), gib(plan.moments), gib(plan.gradients),
      gib(plan.weights), gib(plan.kv_pages), gib(plan.rope_tables), gib(plan.head),
      gib(plan.serving()), gib(plan.training()), plan.micro_batch_rows);
}

}  // namespace lockstep
