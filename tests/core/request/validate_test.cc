// Goal: bad Generate, Score and CheckParity requests are refused by field, index and value, and
// what lies just inside a limit is accepted. Method: tables of one change each to a good request,
// with the whole message expected.
#include "core/request/validate.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr RequestLimits kLimits{
    .vocab_size = 100, .context_length_max = 16, .num_samples_max = 8, .data_max = 10};

template <typename Request>
struct Case {
  std::function<void(Request&)> change;
  std::string message;  // empty: accepted
};

template <typename Request>
void Check(const Request& good, const std::vector<Case<Request>>& cases) {
  ASSERT_TRUE(Validate(good, kLimits).ok()) << Validate(good, kLimits);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + cases[i].message);
    Request request = good;
    cases[i].change(request);
    const absl::Status status = Validate(request, kLimits);
    EXPECT_EQ(status.message(), cases[i].message);
    EXPECT_EQ(status.code(), cases[i].message.empty() ? absl::StatusCode::kOk
                                                      : absl::StatusCode::kInvalidArgument);
  }
}

TEST(ValidateTest, Generate) {
  GenerateRequest good;
  good.prompt = {0, 50, 99};
  good.max_tokens = 5;
  good.stop_token_ids = {7};
  using R = GenerateRequest;
  Check<R>(
      good,
      {
          {[](R& r) { r.prompt.clear(); }, "prompt_token_ids: must have at least 1 token, has 0"},
          {[](R& r) { r.prompt[2] = 100; },
           "prompt_token_ids[2]: 100 is outside the vocabulary [0, 100)"},
          {[](R& r) { r.prompt[0] = -1; },
           "prompt_token_ids[0]: -1 is outside the vocabulary [0, 100)"},
          {[](R& r) { r.prompt.assign(17, 1); },
           "prompt_token_ids: 17 tokens exceed the model's context of 16"},
          {[](R& r) { r.max_tokens = 14; },
           "max_tokens: prompt of 3 + max_tokens 14 exceeds the model's context of 16"},
          {[](R& r) { r.max_tokens = std::numeric_limits<int32_t>::max(); },
           "max_tokens: prompt of 3 + max_tokens 2147483647 exceeds the model's context of 16"},
          {[](R& r) { r.max_tokens = 13; }, ""},
          {[](R& r) { r.max_tokens = 0; }, "max_tokens: must be >= 1, is 0"},
          {[](R& r) { r.max_tokens = -3; }, "max_tokens: must be >= 1, is -3"},
          {[](R& r) { r.num_samples = 0; }, "num_samples: must be in [1, 8], is 0"},
          {[](R& r) { r.num_samples = -1; }, "num_samples: must be in [1, 8], is -1"},
          {[](R& r) { r.num_samples = 8; }, ""},
          {[](R& r) { r.num_samples = 9; }, "num_samples: must be in [1, 8], is 9"},
          {[](R& r) {
             r.stop_token_ids = {7, 100};
           },
           "stop_token_ids[1]: 100 is outside the vocabulary [0, 100)"},
          {[](R& r) { r.request_id.assign(256, 'x'); }, ""},
          {[](R& r) { r.request_id.assign(257, 'x'); },
           "request_id: must be at most 256 bytes, is 257"},
      });
}

TEST(ValidateTest, SamplingParams) {
  GenerateRequest good;
  good.prompt = {1};
  using R = GenerateRequest;
  good.max_tokens = 1;
  Check<R>(
      good,
      {
          {[](R& r) { r.sampling.temperature = -0.5f; },
           "sampling_params.temperature: must be >= 0 and finite, is -0.5"},
          {[](R& r) { r.sampling.temperature = kNan; },
           "sampling_params.temperature: must be >= 0 and finite, is nan"},
          {[](R& r) { r.sampling.temperature = kInf; },
           "sampling_params.temperature: must be >= 0 and finite, is inf"},
          {[](R& r) { r.sampling.temperature = 5e-7f; },
           "sampling_params.temperature: must be >= 1e-06, is 5e-07"},
          {[](R& r) { r.sampling.temperature = kTemperatureMin; }, ""},
          {[](R& r) { r.sampling.temperature = 0; }, ""},
          {[](R& r) { r.sampling.top_p = 0; }, "sampling_params.top_p: must be in (0, 1], is 0"},
          {[](R& r) { r.sampling.top_p = 1.5f; },
           "sampling_params.top_p: must be in (0, 1], is 1.5"},
          {[](R& r) { r.sampling.top_p = -0.25f; },
           "sampling_params.top_p: must be in (0, 1], is -0.25"},
          {[](R& r) { r.sampling.top_p = kNan; },
           "sampling_params.top_p: must be in (0, 1], is nan"},
          {[](R& r) { r.sampling.top_p = 0.5f; }, ""},
          {[](R& r) { r.sampling.top_k = -1; },
           "sampling_params.top_k: must be in [0, 100], is -1"},
          {[](R& r) { r.sampling.top_k = 100; }, ""},
          {[](R& r) { r.sampling.top_k = 101; },
           "sampling_params.top_k: must be in [0, 100], is 101"},
          {[](R& r) { r.sampling.min_p = -1; }, "sampling_params.min_p: must be in [0, 1], is -1"},
          {[](R& r) { r.sampling.min_p = kNan; },
           "sampling_params.min_p: must be in [0, 1], is nan"},
          {[](R& r) { r.sampling.min_p = 1; }, ""},
      });
}

TEST(ValidateTest, Score) {
  ScoreRequest good;
  good.sequences.resize(2);
  good.sequences[0].tokens = {1};
  good.sequences[1].tokens.assign(16, 99);
  using R = ScoreRequest;
  Check<R>(good, {
                     {[](R& r) { r.sequences.clear(); },
                      "sequences: must have at least 1 sequence, has 0"},
                     {[](R& r) { r.sequences.resize(11); },
                      "sequences: must have at most 10 sequences, has 11"},
                     {[](R& r) { r.sequences[1].tokens.clear(); },
                      "sequences[1].token_ids: must have at least 1 token, has 0"},
                     {[](R& r) { r.sequences[1].tokens.push_back(1); },
                      "sequences[1].token_ids: 17 tokens exceed the model's context of 16"},
                     {[](R& r) { r.sequences[1].tokens[3] = 700; },
                      "sequences[1].token_ids[3]: 700 is outside the vocabulary [0, 100)"},
                     {[](R& r) { r.sequences[0].temperature = 0; },
                      "sequences[0].sampling_params.temperature: must be > 0 and finite, is 0"},
                     {[](R& r) { r.sequences[0].temperature = kNan; },
                      "sequences[0].sampling_params.temperature: must be > 0 and finite, is nan"},
                     {[](R& r) { r.sequences[0].temperature = 1e-9f; },
                      "sequences[0].sampling_params.temperature: must be >= 1e-06, is 1e-09"},
                     {[](R& r) { r.sequences[0].temperature = 0.5f; }, ""},
                 });
}

TEST(ValidateTest, Parity) {
  ParityRequest good;
  good.max_tokens = 15;
  using R = ParityRequest;
  Check<R>(good,
           {
               {[](R& r) { r.num_prompts = 0; }, "num_prompts: must be in [1, 10], is 0"},
               {[](R& r) { r.num_samples = 0; }, "num_samples: must be in [1, 8], is 0"},
               {[](R& r) { r.num_samples = 3; },
                "num_samples: 4 prompts x 3 samples exceed data_max 10"},
               {[](R& r) { r.max_tokens = 0; }, "max_tokens: must be >= 1, is 0"},
               {[](R& r) { r.max_tokens = 16; },
                "max_tokens: prompt of 1 + max_tokens 16 exceeds the model's context of 16"},
               {[](R& r) { r.temperature = 0; }, "temperature: must be > 0 and finite, is 0"},
               {[](R& r) { r.temperature = -1; }, "temperature: must be > 0 and finite, is -1"},
               {[](R& r) { r.temperature = 1e-7f; }, "temperature: must be >= 1e-06, is 1e-07"},
               {[](R& r) { r.prompts.assign(11, {1}); }, "prompts: must be in [1, 10], is 11"},
               {[](R& r) {
                  r.prompts = {{1}, {}};
                },
                "prompts[1].token_ids: must have at least 1 token, has 0"},
               {[](R& r) {
                  r.prompts = {{1, -7}};
                },
                "prompts[0].token_ids[1]: -7 is outside the vocabulary [0, 100)"},
               {[](R& r) {
                  r.prompts = {{1, 2}};
                },
                "max_tokens: prompt of 2 + max_tokens 15 exceeds the model's context of 16"},
               {[](R& r) {
                  r.prompts = {{1}, {2}};
                },
                ""},
           });
}

}  // namespace
}  // namespace lockstep
