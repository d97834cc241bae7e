#include "core/engine/parity_checker.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/philox.h"
#include "core/train/train_metrics.h"
#include "kernels/host_math.h"

namespace lockstep {
namespace {

constexpr int64_t kPromptLengthMax = 24;

// Of prompts drawn from a seed.
int64_t DrawnPromptLengthMax(const ParityRequest& request, const RequestLimits& limits) {
  return std::min(kPromptLengthMax, limits.context_length_max - request.max_tokens);
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// One comparison: `actual` and what the rollouts were drawn with, token by token.
class Comparison {
 public:
  explicit Comparison(std::string name) { row_.name = std::move(name); }

  // actual[i]: log-prob of drawn token i of rollout `index`.
  void Add(int64_t index, const Rollout& rollout, absl::Span<const float> actual) {
    for (size_t i = 0; i < rollout.logprobs.size(); ++i) {
      ++row_.compared_tokens;
      const double d = static_cast<double>(actual[i]) - rollout.logprobs[i];
      k3_sum_ += kernels::host::Exp(d) - 1 - d;
      if (SameBits(actual[i], rollout.logprobs[i])) continue;
      AddMismatch(index, rollout.prompt_length + static_cast<int64_t>(i), rollout.logprobs[i],
                  actual[i]);
    }
  }

  void AddMismatch(int64_t index, int64_t position, float expected, float actual) {
    if (row_.mismatched_tokens++ > 0) return;
    row_.first_mismatch = TokenMismatch{index, position, Bits(expected), Bits(actual)};
  }

  ParityComparison Finish() {
    if (row_.compared_tokens > 0) {
      row_.k3_kl = k3_sum_ / static_cast<double>(row_.compared_tokens);
    }
    return std::move(row_);
  }

 private:
  ParityComparison row_;
  double k3_sum_ = 0;
};

// The client-shifted datum of a rollout.
Datum MakeDatum(const Rollout& rollout, float temperature) {
  Datum datum;
  datum.model_input.assign(rollout.tokens.begin(), rollout.tokens.end() - 1);
  datum.target_tokens.assign(rollout.tokens.begin() + 1, rollout.tokens.end());
  datum.mask.assign(datum.model_input.size(), 1.0f);
  std::fill_n(datum.mask.begin(), rollout.prompt_length - 1, 0.0f);
  datum.sampling.temperature = temperature;
  return datum;
}

Comparison CompareScores(std::string name, const std::vector<Rollout>& rollouts,
                         const std::vector<SequenceScore>& scores) {
  Comparison comparison(std::move(name));
  for (size_t i = 0; i < rollouts.size(); ++i) {
    comparison.Add(static_cast<int64_t>(i), rollouts[i],
                   absl::MakeConstSpan(scores[i].logprobs).subspan(rollouts[i].prompt_length));
  }
  return comparison;
}

Comparison CompareTraining(std::string name, const std::vector<Rollout>& rollouts,
                           const std::vector<std::vector<float>>& logprobs) {
  Comparison comparison(std::move(name));
  for (size_t i = 0; i < rollouts.size(); ++i) {
    comparison.Add(static_cast<int64_t>(i), rollouts[i],
                   absl::MakeConstSpan(logprobs[i]).subspan(rollouts[i].prompt_length - 1));
  }
  return comparison;
}

// Tokens too: where a token differs, everything behind it does.
Comparison CompareRollouts(std::string name, const std::vector<Rollout>& rollouts,
                           const std::vector<Rollout>& again) {
  Comparison comparison(std::move(name));
  for (size_t i = 0; i < rollouts.size(); ++i) {
    std::vector<float> logprobs = again[i].logprobs;
    logprobs.resize(rollouts[i].logprobs.size(), std::numeric_limits<float>::quiet_NaN());
    for (size_t t = 0; t < logprobs.size(); ++t) {
      const size_t position = rollouts[i].prompt_length + t;
      if (position >= again[i].tokens.size() ||
          again[i].tokens[position] != rollouts[i].tokens[position]) {
        logprobs[t] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    comparison.Add(static_cast<int64_t>(i), rollouts[i], logprobs);
  }
  return comparison;
}

}  // namespace

ParityChecker::ParityChecker(std::unique_ptr<ParityPaths> paths, const RequestLimits& limits)
    : paths_(std::move(paths)), limits_(limits), checks_(kChecksMax), thread_([this] { Run(); }) {}

ParityChecker::~ParityChecker() {
  checks_.Close();
  thread_.join();
}

absl::Status ParityChecker::Post(ParityRequest request, Callback done) {
  if (checks_.TryPush({std::move(request), std::move(done)})) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(kChecksMax, " parity checks wait already"));
}

int64_t ParityChecker::PositionsMax(const ParityRequest& request, const RequestLimits& limits) {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : request.prompts) {
    longest = std::max(longest, prompt.size());
  }
  const int64_t prompt_length = request.prompts.empty() ? DrawnPromptLengthMax(request, limits)
                                                        : static_cast<int64_t>(longest);
  return prompt_length + request.max_tokens - 1;
}

void ParityChecker::Run() {
  while (true) {
    absl::StatusOr<Check> check = checks_.Pop(absl::InfiniteFuture());
    if (!check.ok()) return;
    check->done(Compare(check->request));
  }
}

absl::StatusOr<ParityResult> ParityChecker::Compare(const ParityRequest& request) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ParityPaths::Pinned pinned, paths_->Pin());
  ParityResult result;
  result.weights = pinned.weights;
  result.weights_digest = pinned.weights_digest;
  const absl::Status status = CompareAll(request, pinned.weights, &result);
  paths_->Unpin(pinned.weights);
  LOCKSTEP_RETURN_IF_ERROR(status);
  return result;
}

absl::Status ParityChecker::CompareAll(const ParityRequest& request, const WeightsState& weights,
                                       ParityResult* result) {
  const std::vector<GenerateRequest> requests = MakeRequests(request);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Rollout> rollouts,
                            paths_->Generate(requests, 0, weights));
  std::vector<Datum> data;
  ScoreRequest score;
  for (const Rollout& rollout : rollouts) {
    data.push_back(MakeDatum(rollout, request.temperature));
    score.sequences.push_back({rollout.tokens, request.temperature});
  }
  const auto add = [result](Comparison comparison) {
    result->comparisons.push_back(comparison.Finish());
  };

  // The same requests one by one, prompts in chunks of one.
  std::vector<Rollout> alone;
  for (const GenerateRequest& one : requests) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Rollout> again, paths_->Generate({one}, 1, weights));
    for (Rollout& rollout : again) alone.push_back(std::move(rollout));
  }
  add(CompareRollouts("generate_alone_chunk_1", rollouts, alone));

  for (const int64_t chunk : {0, 1, 5, 16, 64}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const ScoreResult scores, paths_->Score(score, chunk, weights));
    add(CompareScores(chunk == 0 ? "score" : absl::StrCat("score_chunk_", chunk), rollouts,
                      scores.scores));
  }
  std::vector<SequenceScore> scores_alone;
  for (const ScoreSequence& sequence : score.sequences) {
    LOCKSTEP_ASSIGN_OR_RETURN(ScoreResult one, paths_->Score({{sequence}}, 0, weights));
    scores_alone.push_back(std::move(one.scores.front()));
  }
  add(CompareScores("score_alone", rollouts, scores_alone));

  const int64_t all = static_cast<int64_t>(data.size());
  for (const auto& [name, micro_batch_size] :
       {std::pair<const char*, int64_t>{"training_packed", all},
        {"training_micro_batch_3", 3},
        {"training_alone", 1}}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::vector<float>> logprobs,
                              paths_->TrainingForward(data, micro_batch_size, weights));
    add(CompareTraining(name, rollouts, logprobs));
  }
  return absl::OkStatus();
}

std::vector<GenerateRequest> ParityChecker::MakeRequests(const ParityRequest& request) const {
  std::vector<std::vector<int32_t>> prompts = request.prompts;
  if (prompts.empty()) {
    // The first of length 1: where off-by-ones live.
    const int64_t length_max = DrawnPromptLengthMax(request, limits_);
    for (int32_t i = 0; i < request.num_prompts; ++i) {
      const auto uniform = [&](int64_t position) {
        return PhiloxUniform(request.seed, static_cast<uint64_t>(position),
                             static_cast<uint64_t>(i));
      };
      const int64_t length =
          i == 0 ? 1 : 1 + static_cast<int64_t>(uniform(0) * static_cast<double>(length_max));
      std::vector<int32_t>& prompt = prompts.emplace_back();
      for (int64_t t = 1; t <= length; ++t) {
        prompt.push_back(
            static_cast<int32_t>(uniform(t) * static_cast<double>(limits_.vocab_size)));
      }
    }
  }
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerateRequest& generate = requests.emplace_back();
    generate.request_id = absl::StrCat("parity-", i);
    generate.prompt = std::move(prompts[i]);
    generate.num_samples = request.num_samples;
    generate.max_tokens = request.max_tokens;
    generate.sampling.temperature = request.temperature;
    generate.seed = request.seed + i;
    generate.ignore_eos = true;  // so that the number of tokens compared is the number asked for
  }
  return requests;
}

}  // namespace lockstep
