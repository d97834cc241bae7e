#include "tests/invariance/generation_matrix.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using Arrival = GenerationVariant::Arrival;
using kernels::InstructionSet;

std::vector<size_t> ArrivalOrder(Arrival arrival, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (arrival == Arrival::kTogetherReversed) std::reverse(order.begin(), order.end());
  if (arrival == Arrival::kTogetherRotated) {
    std::rotate(order.begin(), order.begin() + static_cast<int64_t>(count / 2), order.end());
  }
  return order;
}

ScoreRequest ScoresOf(const std::vector<GenerateRequest>& requests,
                      const std::vector<Generated>& generated) {
  ScoreRequest score;
  for (size_t i = 0; i < requests.size(); ++i) {
    const float temperature = requests[i].sampling.temperature;
    for (const GeneratedSample& sample : generated[i].samples) {
      ScoreSequence& sequence = score.sequences.emplace_back();
      sequence.tokens = requests[i].prompt;
      sequence.tokens.insert(sequence.tokens.end(), sample.tokens.begin(), sample.tokens.end());
      sequence.temperature = temperature == 0 ? 1 : temperature;
    }
  }
  return score;
}

}  // namespace

EngineConfig BaselineConfig(const std::string& directory) {
  EngineConfig config;
  config.model_directory = directory;
  config.stages = 1;
  config.threads = 1;
  config.running_sequences_max = 32;
  return config;
}

std::vector<GenerateRequest> MatrixRequests() {
  const struct {
    int64_t prompt_length;
    SamplingParams sampling;
  } kCases[] = {
      {1, {.temperature = 1}},
      {17, {.temperature = 0.5f, .top_p = 0.9f}},
      {40, {.temperature = 0.7f, .top_k = 5}},
      {130, {.temperature = 1.5f, .min_p = 0.05f}},
      {23, {.temperature = 0}},
      {5, {.temperature = 0.7f, .top_p = 0.95f, .top_k = 20, .min_p = 0.02f}},
      {9, {.temperature = 0.5f}},
      {64, {.temperature = 1.5f}},
      {33, {.temperature = 0.7f}},
  };
  std::vector<GenerateRequest> requests;
  for (const auto& one : kCases) {
    GenerateRequest& request = requests.emplace_back();
    request.prompt = TinyTokens(200 + requests.size(), one.prompt_length);
    request.num_samples = 2;
    request.sampling = one.sampling;
    request.seed = 7000 + requests.size();
    request.max_tokens = 20;
    request.ignore_eos = requests.size() != 1;  // one may end early
  }
  return requests;
}

std::vector<GenerationVariant> GenerationVariants(kernels::Profile profile) {
  std::vector<GenerationVariant> variants;
  const auto add = [&](std::string name, const std::function<void(EngineConfig&)>& change,
                       Arrival arrival = Arrival::kTogether) {
    EngineConfig config = BaselineConfig("");
    config.profile = profile;
    change(config);
    variants.push_back({std::move(name), config, arrival});
  };
  add(
      "baseline", [](EngineConfig&) {}, Arrival::kOneByOne);
  add("together", [](EngineConfig&) {});
  add(
      "reversed", [](EngineConfig&) {}, Arrival::kTogetherReversed);
  add(
      "rotated", [](EngineConfig&) {}, Arrival::kTogetherRotated);
  for (const int chunk : {1, 5, 16, 64}) {
    const auto change = [chunk](EngineConfig& c) { c.prefill_chunk_max = chunk; };
    add(absl::StrCat("chunk_", chunk), change);
    add(absl::StrCat("alone_chunk_", chunk), change, Arrival::kOneByOne);
  }
  for (const int page : {8, 32, 64, 128}) {
    add(absl::StrCat("page_", page), [page](EngineConfig& c) { c.kv_page_size = page; });
  }
  for (const int tokens : {1, 7, 50}) {
    add(absl::StrCat("step_tokens_", tokens), [=](EngineConfig& c) { c.step_tokens_max = tokens; });
  }
  for (const int sequences : {1, 2, 5}) {
    add(absl::StrCat("running_", sequences),
        [=](EngineConfig& c) { c.running_sequences_max = sequences; });
  }
  // Room for one long sequence or a few short ones: requests wait for pages.
  add("few_pages", [](EngineConfig& c) { c.kv_page_count = 20; });
  for (const int threads : {2, 3}) {
    add(absl::StrCat("threads_", threads), [=](EngineConfig& c) { c.threads = threads; });
  }
  for (const int stages : {2, 3, 4}) {
    add(absl::StrCat("stages_", stages), [=](EngineConfig& c) { c.stages = stages; });
  }
  add(
      "stages_2_alone", [](EngineConfig& c) { c.stages = 2; }, Arrival::kOneByOne);
  for (const InstructionSet set : kernels::InstructionSetsOf(profile)) {
    add(std::string(kernels::InstructionSetName(set)),
        [=](EngineConfig& c) { c.instruction_set = set; });
  }
  add(
      "all_at_once",
      [](EngineConfig& c) {
        c.stages = 2;
        c.threads = 3;
        c.prefill_chunk_max = 5;
        c.kv_page_size = 8;
        c.step_tokens_max = 11;
        c.running_sequences_max = 5;
        c.instruction_set = InstructionSet::kScalar;
      },
      Arrival::kTogetherReversed);
  return variants;
}

GenerationRun RunGeneration(EngineDriver& driver, Arrival arrival) {
  const std::vector<GenerateRequest> requests = MatrixRequests();
  GenerationRun run;
  if (arrival == Arrival::kOneByOne) {
    for (const GenerateRequest& request : requests) {
      run.generated.push_back(driver.Generate(request));
    }
  } else {
    const std::vector<size_t> order = ArrivalOrder(arrival, requests.size());
    std::vector<GenerateRequest> arriving;
    for (const size_t i : order) arriving.push_back(requests[i]);
    std::vector<Generated> generated = driver.GenerateTogether(arriving);
    run.generated.resize(requests.size());
    for (size_t i = 0; i < order.size(); ++i) run.generated[order[i]] = std::move(generated[i]);
  }
  for (const Generated& generated : run.generated) {
    LOCKSTEP_CHECK(generated.status.ok()) << generated.status.ToString();
  }
  absl::StatusOr<ScoreResult> scores = driver.Score(ScoresOf(requests, run.generated));
  LOCKSTEP_CHECK(scores.ok()) << scores.status().ToString();
  run.scores = std::move(scores->scores);
  return run;
}

GenerationRun RunGeneration(const GenerationVariant& variant, const std::string& directory,
                            const EngineHooks& hooks) {
  EngineConfig config = variant.config;
  config.model_directory = directory;
  EngineDriver driver(config, hooks);
  return RunGeneration(driver, variant.arrival);
}

BitComparison Compare(const GenerationRun& actual, const GenerationRun& expected) {
  BitComparison comparison;
  for (size_t i = 0; i < expected.generated.size(); ++i) {
    for (size_t s = 0; s < expected.generated[i].samples.size(); ++s) {
      const std::string where = absl::StrCat("request ", i, " sample ", s, " ");
      const GeneratedSample& a = actual.generated[i].samples[s];
      const GeneratedSample& e = expected.generated[i].samples[s];
      comparison.Equal(where + "tokens", a.tokens, e.tokens);
      comparison.Floats(where + "logprobs", a.logprobs, e.logprobs);
      comparison.Floats(where + "raw_logprobs", a.raw_logprobs, e.raw_logprobs);
      comparison.Equal<int>(where + "finish_reason", {static_cast<int>(a.finish_reason)},
                            {static_cast<int>(e.finish_reason)});
    }
  }
  for (size_t i = 0; i < expected.scores.size(); ++i) {
    const std::string where = absl::StrCat("score ", i, " ");
    comparison.Floats(where + "logprobs", actual.scores[i].logprobs, expected.scores[i].logprobs);
    comparison.Floats(where + "raw_logprobs", actual.scores[i].raw_logprobs,
                      expected.scores[i].raw_logprobs);
    comparison.Floats(where + "entropies", actual.scores[i].entropies,
                      expected.scores[i].entropies);
  }
  return comparison;
}

}  // namespace lockstep
