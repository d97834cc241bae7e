// lockstep generate.
#include <map>
#include <ostream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"

namespace lockstep::cli {
namespace {

struct GenerateFlags {
  std::vector<int32_t> prompt;
  absl::optional<int32_t> num_samples;
  absl::optional<int32_t> max_tokens;
  absl::optional<uint64_t> seed;
  absl::optional<float> temperature;
  absl::optional<float> top_p;
  absl::optional<float> min_p;
  int32_t top_k = 0;
  std::vector<int32_t> stop;
  bool ignore_eos = false;
  bool logprobs = false;

  void AddTo(FlagSet& flags) {
    flags.AddRequired("prompt", "token ids, such as 1,2,3; required", &prompt);
    flags.Add("num-samples", "independent samples; default 1", &num_samples);
    flags.Add("max-tokens", "tokens to draw per sample; default 16", &max_tokens);
    flags.Add("seed", "the draws are a function of it; default: a fresh one", &seed);
    flags.Add("temperature", "0 is greedy; default 1", &temperature);
    flags.Add("top-p", "in (0, 1]; default 1, off", &top_p);
    flags.Add("top-k", "default 0, off", &top_k);
    flags.Add("min-p", "in [0, 1]; default 0, off", &min_p);
    flags.Add("stop", "token ids that end a sample", &stop);
    flags.Add("ignore-eos", "go on after the model's end of sequence; default false", &ignore_eos);
    flags.Add("logprobs", "show the log-prob of each token; default false", &logprobs);
  }

  v1::GenerateRequest ToRequest() const {
    v1::GenerateRequest request;
    request.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
    if (num_samples.has_value()) request.set_num_samples(*num_samples);
    if (max_tokens.has_value()) request.set_max_tokens(*max_tokens);
    if (seed.has_value()) request.set_seed(*seed);
    v1::SamplingParams& sampling = *request.mutable_sampling_params();
    if (temperature.has_value()) sampling.set_temperature(*temperature);
    if (top_p.has_value()) sampling.set_top_p(*top_p);
    if (min_p.has_value()) sampling.set_min_p(*min_p);
    sampling.set_top_k(top_k);
    request.mutable_stop_token_ids()->Add(stop.begin(), stop.end());
    request.set_ignore_eos(ignore_eos);
    return request;
  }
};

// What has come of one sample.
struct Sample {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;

  void Append(const v1::SampleDelta& delta) {
    tokens.insert(tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
    logprobs.insert(logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
    finish_reason = delta.finish_reason();
  }
};

const char* FinishReasonText(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_ABORTED:
      return "aborted";
    default:
      return "unfinished";
  }
}

}  // namespace

int RunGenerate(const Arguments& arguments, const Surroundings& surroundings) {
  Command command("generate", "sample continuations of a prompt.", surroundings);
  GenerateFlags flags;
  flags.AddTo(command.flags());
  if (const int code = command.Parse(arguments); code >= 0) return code;
  const std::unique_ptr<Client> client = command.Connect();
  if (client == nullptr) return kExitRpc;

  std::ostream& out = surroundings.out;
  std::map<int32_t, Sample> samples;
  v1::GenerateHeader header;
  const absl::Status status =
      client->Generate(flags.ToRequest(), [&](const v1::GenerateResponse& message) {
        if (command.json()) out << ToJsonLine(message) << std::endl;
        if (message.has_header()) header = message.header();
        for (const v1::SampleDelta& delta : message.deltas()) {
          samples[delta.sample_index()].Append(delta);
        }
        return true;
      });
  if (!command.json() && (status.ok() || !samples.empty())) {
    out << "seed " << header.seed_used() << ", weight version " << header.weights().weight_version()
        << "\n";
    for (const auto& [index, sample] : samples) {
      out << "sample " << index << " (" << FinishReasonText(sample.finish_reason)
          << "): " << absl::StrJoin(sample.tokens, ",") << "\n";
      if (flags.logprobs) {
        // Nine digits name a float exactly.
        out << "  logprobs: "
            << absl::StrJoin(sample.logprobs, ",",
                             [](std::string* text, float value) {
                               absl::StrAppendFormat(text, "%.9g", value);
                             })
            << "\n";
      }
    }
  }
  return status.ok() ? kExitOk : command.FailRpc(status);
}

}  // namespace lockstep::cli
