// lockstep parity.
#include <ostream>

#include "absl/strings/str_format.h"
#include "client/cli/command.h"

namespace lockstep::cli {
namespace {

void PrintTable(const v1::CheckParityResponse& response, std::ostream& out) {
  out << absl::StrFormat("%-28s %10s %10s %12s  %s\n", "path", "compared", "differ", "k3 KL",
                         "first mismatch");
  for (const v1::ParityComparison& comparison : response.comparisons()) {
    out << absl::StrFormat("%-28s %10d %10d %12.4g  ", comparison.name(),
                           comparison.compared_tokens(), comparison.mismatched_tokens(),
                           comparison.k3_kl());
    if (comparison.has_first_mismatch()) {
      const v1::TokenMismatch& mismatch = comparison.first_mismatch();
      out << absl::StrFormat("rollout %d position %d: 0x%08x, 0x%08x", mismatch.datum_index(),
                             mismatch.position(), mismatch.expected_bits(), mismatch.actual_bits());
    } else {
      out << "-";
    }
    out << "\n";
  }
  out << "numerics " << response.weights().numerics_id() << ", weight version "
      << response.weights().weight_version() << ", weights digest " << response.weights_digest()
      << "\n";
  out << (response.passed() ? "PASS" : "FAIL")
      << ": mismatched tokens: " << response.mismatched_tokens() << " of "
      << response.compared_tokens() << " compared\n";
}

}  // namespace

int RunParity(const Arguments& arguments, const Surroundings& surroundings) {
  Command command(
      "parity",
      "generate, run every other path over the same tokens, compare bits. Exit status 1 "
      "when any differ or nothing was compared.",
      surroundings);
  absl::optional<int32_t> prompts;
  absl::optional<int32_t> samples;
  absl::optional<int32_t> max_tokens;
  absl::optional<float> temperature;
  absl::optional<uint64_t> seed;
  command.flags().Add("prompts", "number of prompts, drawn from the seed; default 4", &prompts);
  command.flags().Add("samples", "samples of each prompt; default 2", &samples);
  command.flags().Add("max-tokens", "tokens of each sample; default 32", &max_tokens);
  command.flags().Add("temperature", "> 0; default 1", &temperature);
  command.flags().Add("seed", "of prompts and draws; default 0", &seed);
  if (const int code = command.Parse(arguments); code >= 0) return code;
  const std::unique_ptr<Client> client = command.Connect();
  if (client == nullptr) return kExitRpc;

  v1::CheckParityRequest request;
  if (prompts.has_value()) request.set_num_prompts(*prompts);
  if (samples.has_value()) request.set_num_samples(*samples);
  if (max_tokens.has_value()) request.set_max_tokens(*max_tokens);
  if (temperature.has_value()) request.set_temperature(*temperature);
  if (seed.has_value()) request.set_seed(*seed);
  const absl::StatusOr<v1::CheckParityResponse> response = client->CheckParity(request);
  if (!response.ok()) return command.FailRpc(response.status());
  if (command.json()) {
    surroundings.out << ToJsonLine(*response) << "\n";
  } else {
    PrintTable(*response, surroundings.out);
  }
  return response->passed() ? kExitOk : kExitMismatch;
}

}  // namespace lockstep::cli
