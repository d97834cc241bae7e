#include "core/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"
#include "core/model/philox.h"

namespace lockstep {
namespace {

// The lowest id of the highest logit. REQUIRES: finite logits.
int32_t ArgMax(const float* logits, int64_t v) {
  int64_t best = 0;
  for (int64_t i = 1; i < v; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

// Index of the inverse CDF of p[n], ids ascending, in double. The uniform is scaled by the sum as
// it came out, so that the rounding of the sum falls on no token in particular
// (docs/decisions/0005-scaled-uniform.md).
int64_t Draw(const float* p, int64_t n, double uniform) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += p[i];
  const double threshold = uniform * sum;
  double below = 0;
  for (int64_t i = 0; i < n; ++i) {
    below += p[i];
    if (below > threshold) return i;
  }
  return n - 1;
}

}  // namespace

Sampler::Sampler(const kernels::Kernels& kernels, kernels::Parallel& parallel)
    : kernels_(kernels), parallel_(parallel) {}

float Sampler::LogSumExp(const float* logits, int64_t v, float temperature) {
  const int32_t no_target = -1;
  float log_sum_exp;
  float log_prob;
  kernels_.LogProb(parallel_, logits, 1, v, &temperature, &no_target, &log_sum_exp, &log_prob,
                   nullptr);
  return log_sum_exp;
}

float Sampler::LogProb(const float* logits, int64_t v, float temperature, int32_t target) {
  float log_sum_exp;
  float log_prob;
  kernels_.LogProb(parallel_, logits, 1, v, &temperature, &target, &log_sum_exp, &log_prob,
                   nullptr);
  return log_prob;
}

SampledToken Sampler::Sample(const float* logits, int64_t v, const SamplingParams& params,
                             const DrawKey& key) {
  SampledToken sampled;
  const float temperature = params.temperature == 0 ? 1 : params.temperature;
  const float log_sum_exp = LogSumExp(logits, v, temperature);
  if (!std::isfinite(log_sum_exp)) {
    sampled.finite = false;
    return sampled;
  }
  if (params.temperature == 0) {
    sampled.token = ArgMax(logits, v);
    sampled.raw_logprob = LogProb(logits, v, 1, sampled.token);
    return sampled;
  }

  const double uniform = PhiloxUniform(key.seed, key.position, key.sample_index);
  if (!params.truncates()) {
    probabilities_.resize(v);
    kernels_.Probabilities(logits, v, temperature, log_sum_exp, probabilities_.data());
    sampled.token = static_cast<int32_t>(Draw(probabilities_.data(), v, uniform));
    sampled.logprob = LogProb(logits, v, temperature, sampled.token);
  } else {
    Truncate(logits, v, params);
    const int64_t kept = static_cast<int64_t>(kept_.size());
    const float kept_sum = LogSumExp(kept_logits_.data(), kept, temperature);
    probabilities_.resize(kept);
    kernels_.Probabilities(kept_logits_.data(), kept, temperature, kept_sum, probabilities_.data());
    const int64_t index = Draw(probabilities_.data(), kept, uniform);
    sampled.token = kept_[index];
    sampled.logprob = LogProb(kept_logits_.data(), kept, temperature, static_cast<int32_t>(index));
  }
  sampled.raw_logprob = LogProb(logits, v, 1, sampled.token);
  return sampled;
}

void Sampler::Truncate(const float* logits, int64_t v, const SamplingParams& params) {
  // A heap gives ids by (logit descending, id ascending), as many as are asked for: a full sort of
  // the vocabulary is not needed.
  const auto worse = [logits](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] < logits[b] : a > b;
  };
  order_.resize(v);
  for (int64_t i = 0; i < v; ++i) order_[i] = static_cast<int32_t>(i);
  std::make_heap(order_.begin(), order_.end(), worse);
  const auto pop = [&] {
    std::pop_heap(order_.begin(), order_.end(), worse);
    const int32_t id = order_.back();
    order_.pop_back();
    return id;
  };
  const auto compact = [&] {
    std::sort(kept_.begin(), kept_.end());
    kept_logits_.resize(kept_.size());
    for (size_t i = 0; i < kept_.size(); ++i) kept_logits_[i] = logits[kept_[i]];
  };

  // top-k.
  const bool top_k = params.top_k > 0 && params.top_k < v;
  std::vector<int32_t> best_first;
  float log_sum_exp;
  if (top_k) {
    for (int32_t i = 0; i < params.top_k; ++i) best_first.push_back(pop());
    kept_ = best_first;
    compact();
    log_sum_exp = LogSumExp(kept_logits_.data(), params.top_k, params.temperature);
  } else {
    log_sum_exp = LogSumExp(logits, v, params.temperature);
  }

  // top-p of the mass that top-k left, the crossing token included; then min-p. Both stop at the
  // first token of the order that falls out, since probabilities only fall from there. top-p 1 is
  // off, and not a bound: rounded probabilities may add up to 1 before the last token.
  const int64_t candidates = top_k ? params.top_k : v;
  const double mass_enough =
      params.top_p < 1 ? params.top_p : std::numeric_limits<double>::infinity();
  kept_.clear();
  double mass = 0;
  float best = 0;
  for (int64_t i = 0; i < candidates; ++i) {
    const int32_t id = top_k ? best_first[i] : pop();
    float p;
    kernels_.Probabilities(&logits[id], 1, params.temperature, log_sum_exp, &p);
    if (i == 0) best = p;
    if (i > 0 && (mass >= mass_enough || p < params.min_p * best)) break;
    mass += p;
    kept_.push_back(id);
  }
  compact();
  LOCKSTEP_CHECK(!kept_.empty());
}

}  // namespace lockstep
