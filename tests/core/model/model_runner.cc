#include "tests/core/model/model_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/model/backward.h"
#include "kernels/host_math.h"
#include "kernels/serial.h"

namespace lockstep {
namespace {

std::unique_ptr<WorkerSet> MakeWorkers(int threads) {
  auto workers = WorkerSet::Create(threads);
  LOCKSTEP_CHECK(workers.ok()) << workers.status();
  return *std::move(workers);
}

// A micro-batch of whole data, pages given out in order.
TokenBatch BatchOf(absl::Span<const TrainingDatum> data, int64_t page_size) {
  TokenBatch batch;
  int32_t next_page = 0;
  for (const TrainingDatum& datum : data) {
    const int64_t length = static_cast<int64_t>(datum.tokens.size());
    std::vector<int32_t> pages = PagesFrom(next_page, length, page_size);
    next_page += static_cast<int32_t>(pages.size());
    batch.Append(datum.tokens.data(), length, 0, std::move(pages));
  }
  return batch;
}

kernels::AdamWScalars ScalarsOf(int64_t t) {
  constexpr double kLearningRate = 1e-2;
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.95;
  kernels::AdamWScalars scalars;
  scalars.learning_rate = static_cast<float>(kLearningRate);
  scalars.beta1 = static_cast<float>(kBeta1);
  scalars.one_minus_beta1 = static_cast<float>(1 - kBeta1);
  scalars.beta2 = static_cast<float>(kBeta2);
  scalars.one_minus_beta2 = static_cast<float>(1 - kBeta2);
  const double steps = static_cast<double>(t);
  scalars.inverse_correction1 = static_cast<float>(1 / (1 - kernels::host::Pow(kBeta1, steps)));
  scalars.inverse_correction2 = static_cast<float>(1 / (1 - kernels::host::Pow(kBeta2, steps)));
  scalars.epsilon = 1e-8f;
  scalars.decay = 1e-3f;
  return scalars;
}

}  // namespace

const kernels::Kernels& KernelsOf(kernels::InstructionSet set, kernels::Profile profile) {
  static auto* const kAll =
      new std::map<std::pair<kernels::InstructionSet, kernels::Profile>, kernels::SelectedKernels>;
  const std::pair key(set, profile);
  const auto found = kAll->find(key);
  if (found != kAll->end()) return *found->second.kernels;
  kernels::Serial serial;
  auto selected = kernels::SelectKernels(serial, set, profile);
  LOCKSTEP_CHECK(selected.ok()) << selected.status();
  return *kAll->emplace(key, *std::move(selected)).first->second.kernels;
}

ModelRunner::ModelRunner(const ModelConfig& config, const kernels::Kernels& kernels,
                         const Options& options, absl::FunctionRef<void(OptimizerState&)> fill)
    : config_(config),
      kernels_(kernels),
      options_(options),
      rope_(config),
      workers_(MakeWorkers(options.threads)) {
  for (const StageRange& range : SplitStages(config, options.stages)) {
    stages_.push_back(std::make_unique<Stage>());
    Stage& stage = *stages_.back();
    stage.context = {&config_, range, &kernels_, workers_.get(), rope_.cosine(), rope_.sine()};
    stage.state = std::make_unique<OptimizerState>(config, range);
    fill(*stage.state);
    stage.weights = {stage.state->MakeWeights(kernels, *workers_, 0)};
    stage.kv = KvArena(config, kernels.profile(), range.layer_end - range.layer_begin,
                       options.page_count, options.page_size);
    stage.activations = std::make_unique<Activations>(Activations::Keep::kNothing, stage.context);
  }
  head_ = std::make_unique<Head>(stages_.back()->context);
}

std::vector<float> ModelRunner::Logits(const TokenBatch& batch) {
  const int64_t rows = batch.row_count();
  Buffer<float> hidden(rows * config_.hidden_size);
  for (auto& stage : stages_) {
    Forward(stage->context, stage->weights, batch, stage->kv, *stage->activations, hidden.data());
  }
  std::vector<int32_t> all(rows);
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> logits(rows * config_.vocab_size);
  head_->Logits(
      stages_.back()->weights, hidden.data(), all, [&](int64_t first, int64_t count, float* chunk) {
        std::copy_n(chunk, count * config_.vocab_size, logits.data() + first * config_.vocab_size);
      });
  return logits;
}

Head::TokenStatistics ModelRunner::Accumulate(absl::Span<const TrainingDatum> data) {
  const TokenBatch batch = BatchOf(data, options_.page_size);
  const int64_t pages = batch.sequences.back().pages.back() + 1;
  std::vector<int32_t> targets;
  std::vector<float> coefficients;
  std::vector<float> temperatures;
  for (const TrainingDatum& datum : data) {
    targets.insert(targets.end(), datum.targets.begin(), datum.targets.end());
    coefficients.insert(coefficients.end(), datum.coefficients.begin(), datum.coefficients.end());
    temperatures.insert(temperatures.end(), datum.tokens.size(), datum.temperature);
  }

  std::vector<KvArena> arenas;
  std::vector<Activations> kept;
  Buffer<float> hidden(batch.row_count() * config_.hidden_size);
  for (auto& stage : stages_) {
    const StageRange& range = stage->context.range;
    arenas.emplace_back(config_, kernels_.profile(), range.layer_end - range.layer_begin, pages,
                        options_.page_size);
    kept.emplace_back(Activations::Keep::kAllLayers, stage->context);
    Forward(stage->context, stage->weights, batch, arenas.back(), kept.back(), hidden.data());
  }

  Stage& last = *stages_.back();
  Head::TokenStatistics statistics =
      head_->Statistics(last.weights, hidden.data(), temperatures, targets);
  Buffer<float> dhidden(hidden.size());
  head_->Backward(last.weights, hidden.data(), DatumBegins(batch), temperatures, targets,
                  statistics.log_sum_exp, coefficients, *last.state, dhidden.data());
  for (size_t i = stages_.size(); i-- > 0;) {
    Stage& stage = *stages_[i];
    Backward(stage.context, stage.weights, batch, arenas[i], kept[i], *stage.state, dhidden.data());
  }
  return statistics;
}

void ModelRunner::CombineTied() {
  if (!config_.tie_word_embeddings || combined_) return;
  combined_ = true;
  OptimizerState& first = *stages_.front()->state;
  OptimizerState& last = *stages_.back()->state;
  if (&first == &last) {
    first.CombineTied(kernels_, *workers_, nullptr);
    return;
  }
  const float* scatter = first.gradient(first.embedding_index());
  const std::vector<float> scatter_copy(scatter,
                                        scatter + config_.vocab_size * config_.hidden_size);
  first.CombineTied(kernels_, *workers_, last.head_gradient());
  last.CombineTied(kernels_, *workers_, scatter_copy.data());
}

GradientMap ModelRunner::CombinedGradients() {
  CombineTied();
  GradientMap gradients;
  for (auto& stage : stages_) {
    for (size_t i = 0; i < stage->state->params().size(); ++i) {
      const ParamSpec& spec = stage->state->params()[i];
      const float* values = stage->state->gradient(static_cast<int>(i));
      const auto [it, added] =
          gradients.emplace(spec.name, std::vector<float>(values, values + spec.size()));
      LOCKSTEP_CHECK(added || std::memcmp(it->second.data(), values, spec.size() * 4) == 0)
          << "the two copies of " << spec.name << " drifted apart";
    }
  }
  return gradients;
}

void ModelRunner::Step(int64_t t) {
  CombineTied();
  for (auto& stage : stages_) {
    stage->state->Apply(kernels_, *workers_, ScalarsOf(t));
    stage->state->ZeroGradients();
    stage->weights = {stage->state->MakeWeights(kernels_, *workers_, static_cast<uint64_t>(t))};
  }
  combined_ = false;
}

std::vector<float> ModelRunner::Masters(const std::string& name) {
  for (auto& stage : stages_) {
    for (size_t i = 0; i < stage->state->params().size(); ++i) {
      const ParamSpec& spec = stage->state->params()[i];
      if (spec.name != name) continue;
      const float* values = stage->state->master(static_cast<int>(i));
      return std::vector<float>(values, values + spec.size());
    }
  }
  LOCKSTEP_CHECK(false) << "no tensor " << name;
  return {};
}

kernels::Digest128 ModelRunner::WeightsDigest() {
  kernels::Digest128 digest;
  for (auto& stage : stages_) digest += stage->state->WeightsDigest(kernels_, *workers_);
  return digest;
}

kernels::Digest128 ModelRunner::MomentsDigest() {
  kernels::Digest128 digest;
  for (auto& stage : stages_) digest += stage->state->MomentsDigest(kernels_, *workers_);
  return digest;
}

std::map<std::string, double> ModelRunner::SumsOfSquares() {
  CombineTied();
  std::map<std::string, double> sums;
  for (auto& stage : stages_) {
    const std::vector<double> own = stage->state->SumsOfSquares(kernels_, *workers_);
    for (size_t i = 0; i < own.size(); ++i) sums[stage->state->params()[i].name] += own[i];
  }
  return sums;
}

std::vector<int32_t> PagesFrom(int32_t first, int64_t positions, int64_t page_size) {
  std::vector<int32_t> pages((positions + page_size - 1) / page_size);
  std::iota(pages.begin(), pages.end(), first);
  return pages;
}

}  // namespace lockstep
