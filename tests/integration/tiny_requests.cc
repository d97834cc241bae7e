#include "tests/integration/tiny_requests.h"

#include <limits>

namespace lockstep {

v1::GenerateRequest MakeGenerate(uint64_t seed, int prompt_length, int num_samples,
                                 int max_tokens) {
  v1::GenerateRequest request;
  for (int i = 0; i < prompt_length; ++i) {
    request.add_prompt_token_ids(static_cast<int32_t>((seed * 31 + i * 7) % 256));
  }
  request.set_num_samples(num_samples);
  request.set_max_tokens(max_tokens);
  request.set_seed(seed);
  request.set_ignore_eos(true);
  return request;
}

absl::StatusOr<Rollouts> Generate(Client& client, const v1::GenerateRequest& request,
                                  const CallOptions& options) {
  Rollouts rollouts{.request = request, .header = {}, .summary = {}, .samples = {}};
  const absl::Status status = client.Generate(
      request,
      [&](const v1::GenerateResponse& message) {
        if (message.has_header()) rollouts.header = message.header();
        if (message.has_done()) rollouts.summary = message.done();
        for (const v1::SampleDelta& delta : message.deltas()) {
          v1::SampleDelta& sample = rollouts.samples[delta.sample_index()];
          sample.MergeFrom(delta);
        }
        return true;
      },
      options);
  if (!status.ok()) return status;
  return rollouts;
}

std::vector<v1::Datum> ToData(const Rollouts& rollouts) {
  std::vector<v1::Datum> data;
  for (const auto& [index, sample] : rollouts.samples) {
    std::vector<int32_t> tokens(rollouts.request.prompt_token_ids().begin(),
                                rollouts.request.prompt_token_ids().end());
    const size_t prompt_length = tokens.size();
    tokens.insert(tokens.end(), sample.token_ids().begin(), sample.token_ids().end());
    v1::Datum& datum = data.emplace_back();
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const bool is_drawn = i + 1 >= prompt_length;
      datum.add_model_input(tokens[i]);
      datum.add_target_tokens(tokens[i + 1]);
      datum.add_mask(is_drawn ? 1 : 0);
      datum.add_logprobs(is_drawn ? sample.logprobs(static_cast<int>(i + 1 - prompt_length))
                                  : std::numeric_limits<float>::quiet_NaN());
      datum.add_advantages(index % 2 == 0 ? 1.0f : -1.0f);
    }
    *datum.mutable_sampling_params() = rollouts.request.sampling_params();
    *datum.mutable_sampled_under() = rollouts.header.weights();
  }
  return data;
}

v1::TrainStepRequest MakeTrainStep(const std::string& run_id, uint64_t seq_id,
                                   const std::vector<v1::Datum>& data) {
  v1::TrainStepRequest request;
  request.mutable_call()->set_run_id(run_id);
  request.mutable_call()->set_seq_id(seq_id);
  for (const v1::Datum& datum : data) *request.add_data() = datum;
  request.mutable_loss()->set_kind(v1::LOSS_KIND_PPO);
  request.set_loss_agg_mode(v1::LOSS_AGG_MODE_TOKEN_MEAN);
  request.mutable_adamw()->set_learning_rate(1e-3f);
  return request;
}

}  // namespace lockstep
