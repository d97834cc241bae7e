#ifndef LOCKSTEP_CORE_REQUEST_TRAIN_REQUEST_H_
#define LOCKSTEP_CORE_REQUEST_TRAIN_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request/sampling_params.h"
#include "core/request/weights_state.h"

namespace lockstep {

// One training sequence of N positions, shifted by the client. Optional arrays are empty or [N].
struct Datum {
  std::vector<int32_t> model_input;
  std::vector<int32_t> target_tokens;
  std::vector<float> mask;        // 0 or 1; empty: all 1
  std::vector<float> weights;     // finite; empty: all 1
  std::vector<float> logprobs;    // of sampling; may be NaN where mask is 0
  std::vector<float> advantages;  // finite
  SamplingParams sampling;
  std::optional<WeightsState> sampled_under;

  int64_t length() const { return static_cast<int64_t>(model_input.size()); }
};

enum class LossKind { kCrossEntropy, kPpo };

struct LossConfig {
  LossKind kind = LossKind::kCrossEntropy;
  float clip_low_threshold = 0.8f;  // bounds of the ratio
  float clip_high_threshold = 1.2f;

  bool operator==(const LossConfig&) const = default;
};

enum class LossAggMode { kTokenSum, kTokenMean };

struct AdamWParams {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float grad_clip_norm = 0;  // 0: off
};

// Identity of a mutating call; the first of a run has seq_id 1.
struct CallId {
  std::string run_id;
  uint64_t seq_id = 0;
};

struct ForwardBackwardRequest {
  CallId call;
  std::vector<Datum> data;
  LossConfig loss;
  LossAggMode agg_mode = LossAggMode::kTokenSum;
  int32_t micro_batch_size = 0;  // data; 0: the engine's setting
};

struct OptimStepRequest {
  CallId call;
  AdamWParams adamw;
};

struct TrainStepRequest {
  CallId call;
  std::vector<Datum> data;
  LossConfig loss;
  LossAggMode agg_mode = LossAggMode::kTokenSum;
  AdamWParams adamw;
  int32_t micro_batch_size = 0;
};

struct TokenMismatch {
  int64_t datum_index = 0;
  int64_t position = 0;
  uint32_t expected_bits = 0;
  uint32_t actual_bits = 0;
};

// Names and meanings as in proto/lockstep/v1/training.proto.
struct TrainMetrics {
  double loss = 0;
  int64_t token_count = 0;
  double entropy = 0;
  double ppo_kl = 0;
  double pg_clipfrac = 0;
  int64_t compared_tokens = 0;
  int64_t mismatched_tokens = 0;
  double rollout_probs_diff_max = 0;
  double rollout_probs_diff_mean = 0;
  double k3_kl = 0;
  std::optional<TokenMismatch> first_mismatch;
  double tokens_per_second = 0;
  double bubble_fraction = 0;
};

struct OptimMetrics {
  double grad_norm = 0;
  bool skipped = false;
  std::string non_finite_tensor;
  double loss_denominator = 1;
};

struct ForwardBackwardResult {
  std::vector<std::vector<float>> logprobs;  // [data][N], NaN where the mask is 0
  TrainMetrics metrics;
  WeightsState weights;
};

struct OptimStepResult {
  OptimMetrics metrics;
  WeightsState weights;
};

struct TrainStepResult {
  std::vector<std::vector<float>> logprobs;
  TrainMetrics metrics;
  OptimMetrics optim;
  WeightsState weights;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_REQUEST_TRAIN_REQUEST_H_
