#include "tests/invariance/training_matrix.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/model/philox.h"
#include "tests/invariance/generation_matrix.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::InstructionSet;

constexpr int64_t kLengths[] = {1, 7, 130, 33, 2, 300, 16, 64, 129, 5};
constexpr int kDataPerStep = 7;
constexpr float kTemperatures[] = {1, 0.7f, 1.5f, 0.5f};

// Datum `index` of a step: a function of both alone.
Datum ScriptedDatum(int step, int index) {
  const int64_t length = kLengths[(step + index) % std::size(kLengths)];
  const uint64_t seed = 5000 + static_cast<uint64_t>(step * kDataPerStep + index);
  const auto uniform = [seed](int64_t i, uint64_t what) {
    return static_cast<float>(PhiloxUniform(seed, static_cast<uint64_t>(i), what));
  };
  const std::vector<int32_t> tokens = TinyTokens(seed, length + 1);
  Datum datum;
  datum.model_input.assign(tokens.begin(), tokens.end() - 1);
  datum.target_tokens.assign(tokens.begin() + 1, tokens.end());
  datum.sampling.temperature = kTemperatures[index % std::size(kTemperatures)];
  for (int64_t i = 0; i < length; ++i) {
    const bool prompt = i < length / 3;
    datum.mask.push_back(prompt ? 0 : 1);
    datum.weights.push_back(uniform(i, 1) * 2 - 0.5f);
    datum.logprobs.push_back(prompt ? std::numeric_limits<float>::quiet_NaN()
                                    : -3.5f - 2 * uniform(i, 2));
    datum.advantages.push_back(uniform(i, 3) * 2 - 1);
  }
  return datum;
}

TrainStepResult RunWhole(EngineDriver& driver, const TrainStepRequest& request) {
  absl::StatusOr<TrainStepResult> result = driver.TrainStep(request);
  LOCKSTEP_CHECK(result.ok()) << result.status().ToString();
  return *std::move(result);
}

// The same step in calls of `data_per_call` data. `seq_id`: of the last call so far.
StepTrace RunInCalls(EngineDriver& driver, const TrainStepRequest& whole, int64_t data_per_call,
                     uint64_t* seq_id) {
  StepTrace trace;
  for (size_t begin = 0; begin < whole.data.size(); begin += data_per_call) {
    const size_t end = std::min<size_t>(whole.data.size(), begin + data_per_call);
    ForwardBackwardRequest request;
    request.call = {whole.call.run_id, ++*seq_id};
    request.data.assign(whole.data.begin() + begin, whole.data.begin() + end);
    request.loss = whole.loss;
    request.agg_mode = whole.agg_mode;
    request.micro_batch_size = whole.micro_batch_size;
    absl::StatusOr<ForwardBackwardResult> result = driver.ForwardBackward(request);
    LOCKSTEP_CHECK(result.ok()) << result.status().ToString();
    for (std::vector<float>& logprobs : result->logprobs) {
      trace.logprobs.push_back(std::move(logprobs));
    }
    trace.metrics.push_back(result->metrics);
  }
  absl::StatusOr<OptimStepResult> result =
      driver.OptimStep({{whole.call.run_id, ++*seq_id}, whole.adamw});
  LOCKSTEP_CHECK(result.ok()) << result.status().ToString();
  trace.optim = result->metrics;
  trace.weights = result->weights;
  return trace;
}

std::string Hex(const StateId& id) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), id.size()});
}

void CompareMetrics(const std::string& where, const TrainMetrics& actual,
                    const TrainMetrics& expected, BitComparison* comparison) {
  comparison->Double(where + "loss", actual.loss, expected.loss);
  comparison->Double(where + "entropy", actual.entropy, expected.entropy);
  comparison->Double(where + "ppo_kl", actual.ppo_kl, expected.ppo_kl);
  comparison->Double(where + "pg_clipfrac", actual.pg_clipfrac, expected.pg_clipfrac);
  comparison->Double(where + "k3_kl", actual.k3_kl, expected.k3_kl);
  comparison->Double(where + "probs_diff_max", actual.rollout_probs_diff_max,
                     expected.rollout_probs_diff_max);
  comparison->Double(where + "probs_diff_mean", actual.rollout_probs_diff_mean,
                     expected.rollout_probs_diff_mean);
  comparison->Equal<int64_t>(where + "token_count", {actual.token_count}, {expected.token_count});
}

}  // namespace

TrainStepRequest ScriptedStep(int step) {
  TrainStepRequest request;
  request.call.run_id = "matrix";
  for (int i = 0; i < kDataPerStep; ++i) request.data.push_back(ScriptedDatum(step, i));
  request.loss.kind = step % 2 == 0 ? LossKind::kCrossEntropy : LossKind::kPpo;
  request.agg_mode = step % 4 < 2 ? LossAggMode::kTokenSum : LossAggMode::kTokenMean;
  request.adamw.learning_rate = 3e-3f;
  request.adamw.weight_decay = 0.1f;
  request.adamw.grad_clip_norm = step % 3 == 0 ? 0 : 1.0f;
  return request;
}

std::vector<TrainingVariant> TrainingVariants(kernels::Profile profile) {
  constexpr int32_t kAll = kDataPerStep;
  std::vector<TrainingVariant> variants;
  const auto add = [&](std::string name, int32_t micro_batch_size, int64_t data_per_call,
                       const std::function<void(EngineConfig&)>& change) {
    EngineConfig config = BaselineConfig("");
    config.profile = profile;
    change(config);
    variants.push_back({std::move(name), config, micro_batch_size, data_per_call});
  };
  const auto as_is = [](EngineConfig&) {};
  add("baseline", kAll, 0, as_is);
  for (const int size : {1, 2, 3, 4}) add(absl::StrCat("micro_batch_", size), size, 0, as_is);
  add("one_call", kAll, kAll, as_is);
  for (const int data : {1, 2, 3}) add(absl::StrCat("calls_of_", data), kAll, data, as_is);
  for (const int page : {8, 128}) {
    add(absl::StrCat("page_", page), kAll, 0, [=](EngineConfig& c) { c.kv_page_size = page; });
  }
  for (const int threads : {2, 3}) {
    add(absl::StrCat("threads_", threads), kAll, 0, [=](EngineConfig& c) { c.threads = threads; });
  }
  for (const int stages : {2, 3, 4}) {
    const auto change = [=](EngineConfig& c) { c.stages = stages; };
    add(absl::StrCat("stages_", stages), kAll, 0, change);
    add(absl::StrCat("stages_", stages, "_micro_batch_1"), 1, 0, change);
  }
  add("stages_2_calls_of_3_micro_batch_2", 2, 3, [](EngineConfig& c) { c.stages = 2; });
  for (const InstructionSet set : kernels::InstructionSetsOf(profile)) {
    add(std::string(kernels::InstructionSetName(set)), kAll, 0,
        [=](EngineConfig& c) { c.instruction_set = set; });
  }
  add("all_at_once", 2, 5, [](EngineConfig& c) {
    c.stages = 2;
    c.threads = 3;
    c.kv_page_size = 32;
    c.instruction_set = InstructionSet::kScalar;
  });
  return variants;
}

std::vector<StepTrace> RunTraining(EngineDriver& driver, const TrainingVariant& variant,
                                   int step_count) {
  std::vector<StepTrace> traces;
  uint64_t seq_id = 0;
  for (int step = 0; step < step_count; ++step) {
    TrainStepRequest request = ScriptedStep(step);
    request.micro_batch_size = variant.micro_batch_size;
    StepTrace trace;
    if (variant.data_per_call > 0) {
      trace = RunInCalls(driver, request, variant.data_per_call, &seq_id);
    } else {
      request.call.seq_id = ++seq_id;
      TrainStepResult result = RunWhole(driver, request);
      trace = {std::move(result.logprobs), {result.metrics}, result.optim, result.weights, "", ""};
    }
    const EngineInfo info = driver.engine().Info();
    trace.weights_digest = info.weights_digest;
    trace.moments_digest = info.moments_digest;
    LOCKSTEP_CHECK(info.weights.SameBits(trace.weights)) << "an answer ahead of Info";
    traces.push_back(std::move(trace));
  }
  return traces;
}

std::vector<StepTrace> RunTraining(const TrainingVariant& variant, int step_count,
                                   const std::string& directory, const EngineHooks& hooks) {
  EngineConfig config = variant.config;
  config.model_directory = directory;
  EngineDriver driver(config, hooks);
  return RunTraining(driver, variant, step_count);
}

BitComparison Compare(const std::vector<StepTrace>& actual,
                      const std::vector<StepTrace>& expected) {
  BitComparison comparison;
  for (size_t step = 0; step < expected.size(); ++step) {
    const StepTrace& a = actual[step];
    const StepTrace& e = expected[step];
    const std::string where = absl::StrCat("step ", step, " ");
    for (size_t d = 0; d < e.logprobs.size(); ++d) {
      comparison.Floats(absl::StrCat(where, "datum ", d, " logprobs"), a.logprobs[d],
                        e.logprobs[d]);
    }
    if (a.metrics.size() == e.metrics.size()) {
      for (size_t call = 0; call < e.metrics.size(); ++call) {
        CompareMetrics(where, a.metrics[call], e.metrics[call], &comparison);
      }
    }
    comparison.Double(where + "grad_norm", a.optim.grad_norm, e.optim.grad_norm);
    comparison.Double(where + "loss_denominator", a.optim.loss_denominator,
                      e.optim.loss_denominator);
    comparison.Text(where + "weights digest", a.weights_digest, e.weights_digest);
    comparison.Text(where + "moments digest", a.moments_digest, e.moments_digest);
    comparison.Text(where + "state_id", Hex(a.weights.state_id), Hex(e.weights.state_id));
  }
  return comparison;
}

}  // namespace lockstep
