// lockstep score.
#include <ostream>

#include "absl/strings/str_format.h"
#include "client/cli/command.h"

namespace lockstep::cli {

int RunScore(const Arguments& arguments, const Surroundings& surroundings) {
  Command command("score", "log-probs of given tokens under the current weights.", surroundings);
  std::vector<int32_t> tokens;
  absl::optional<float> temperature;
  command.flags().AddRequired("tokens", "token ids, such as 1,2,3; required", &tokens);
  command.flags().Add("temperature", "of the first column; default 1", &temperature);
  if (const int code = command.Parse(arguments); code >= 0) return code;
  const std::unique_ptr<Client> client = command.Connect();
  if (client == nullptr) return kExitRpc;

  v1::ScoreRequest request;
  v1::ScoreSequence& sequence = *request.add_sequences();
  sequence.mutable_token_ids()->Add(tokens.begin(), tokens.end());
  if (temperature.has_value()) {
    sequence.mutable_sampling_params()->set_temperature(*temperature);
  }
  const absl::StatusOr<v1::ScoreResponse> response = client->Score(request);
  if (!response.ok()) return command.FailRpc(response.status());

  std::ostream& out = surroundings.out;
  if (command.json()) {
    out << ToJsonLine(*response) << "\n";
    return kExitOk;
  }
  out << absl::StrFormat("%8s %8s %14s %14s %14s\n", "position", "token", "logprob", "raw logprob",
                         "entropy");
  const v1::SequenceScore& score = response->scores(0);
  for (int i = 0; i < score.logprobs_size(); ++i) {
    out << absl::StrFormat("%8d %8d %14.9g %14.9g %14.9g\n", i, tokens[i], score.logprobs(i),
                           score.raw_logprobs(i), score.entropies(i));
  }
  return kExitOk;
}

}  // namespace lockstep::cli
