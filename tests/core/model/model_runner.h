// A whole model in one thread of control: its stages run one after the other over the public
// functions of core/model, so that tests can vary how the same work is cut. Not synchronised.
#ifndef LOCKSTEP_TESTS_CORE_MODEL_MODEL_RUNNER_H_
#define LOCKSTEP_TESTS_CORE_MODEL_MODEL_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/device/worker_set.h"
#include "core/model/forward.h"
#include "core/model/head.h"
#include "core/model/kv_arena.h"
#include "core/model/optimizer_state.h"
#include "core/model/rope_tables.h"
#include "core/model/token_batch.h"
#include "kernels/kernels.h"
#include "kernels/select.h"

namespace lockstep {

// A whole training sequence; all vectors have its length.
struct TrainingDatum {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  std::vector<float> coefficients;  // dLoss / dlog_prob
  float temperature = 1;
};

// Names to gradients, as fp32 elements.
using GradientMap = std::map<std::string, std::vector<float>>;

// Kernels of one backend and profile, made once. REQUIRES: the CPU supports them.
const kernels::Kernels& KernelsOf(kernels::InstructionSet set,
                                  kernels::Profile profile = kernels::Profile::kFp32);

class ModelRunner {
 public:
  struct Options {
    int64_t stages = 1;
    int threads = 1;
    int64_t page_size = 16;
    int64_t page_count = 64;
  };
  // `fill` gives every master weight. REQUIRES: kernels outlive this object.
  ModelRunner(const ModelConfig& config, const kernels::Kernels& kernels, const Options& options,
              absl::FunctionRef<void(OptimizerState&)> fill);

  // Logits [M, V] of every row. K and V stay in the pages for the next call.
  std::vector<float> Logits(const TokenBatch& batch);

  // Forward and backward of one micro-batch of whole data; gradients add up.
  Head::TokenStatistics Accumulate(absl::Span<const TrainingDatum> data);
  // Adds up the accumulators of a tied embedding; then reads all gradients.
  GradientMap CombinedGradients();
  // CombineTied, AdamW number t from 1, new compute weights, zeroed gradients.
  void Step(int64_t t);

  std::vector<float> Masters(const std::string& name);
  kernels::Digest128 WeightsDigest();
  kernels::Digest128 MomentsDigest();
  // Sum over stages and tensors, by tensor name.
  std::map<std::string, double> SumsOfSquares();

 private:
  struct Stage {
    StageContext context;
    std::unique_ptr<OptimizerState> state;
    WeightView weights;
    KvArena kv;
    std::unique_ptr<Activations> activations;
  };

  void CombineTied();

  const ModelConfig config_;
  const kernels::Kernels& kernels_;
  const Options options_;
  const RopeTables rope_;
  const std::unique_ptr<WorkerSet> workers_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<Head> head_;
  bool combined_ = false;
};

// Page ids first, first + 1, ... enough for `positions`.
std::vector<int32_t> PagesFrom(int32_t first, int64_t positions, int64_t page_size);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_CORE_MODEL_MODEL_RUNNER_H_
