// Requests for a server of the tiny byte-level model, and what came back.
#ifndef LOCKSTEP_TESTS_INTEGRATION_TINY_REQUESTS_H_
#define LOCKSTEP_TESTS_INTEGRATION_TINY_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace lockstep {

// Everything that a Generate call sent.
struct Rollouts {
  v1::GenerateRequest request;
  v1::GenerateHeader header;
  v1::GenerateSummary summary;
  std::map<int32_t, v1::SampleDelta> samples;  // by sample index, deltas joined
};

// A prompt of `prompt_length` tokens that follow from `seed`; end of sequence is ignored, so that
// lengths are as asked for.
v1::GenerateRequest MakeGenerate(uint64_t seed, int prompt_length, int num_samples, int max_tokens);
absl::StatusOr<Rollouts> Generate(Client& client, const v1::GenerateRequest& request,
                                  const CallOptions& options = {});

// One datum a sample, shifted, with the log-probs it was sampled with and the weights they are of.
// Advantages alternate in sign.
std::vector<v1::Datum> ToData(const Rollouts& rollouts);

// TrainStep with ppo over `data`.
v1::TrainStepRequest MakeTrainStep(const std::string& run_id, uint64_t seq_id,
                                   const std::vector<v1::Datum>& data);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_INTEGRATION_TINY_REQUESTS_H_
