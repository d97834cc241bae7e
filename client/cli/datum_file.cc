#include "client/cli/datum_file.h"

#include <istream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace lockstep::cli {

const char kDatumFileFormat[] =
    "The data file has one training sequence a line, a JSON object with the fields of Datum in\n"
    "proto/lockstep/v1/training.proto. Position i reads model_input[i] and is trained to predict\n"
    "target_tokens[i], so targets are the inputs shifted by one. All arrays have the same length:\n"
    "\n"
    "  {\"model_input\": [5, 6, 7], \"target_tokens\": [6, 7, 2], \"mask\": [0, 1, 1]}\n"
    "\n"
    "  model_input, target_tokens  token ids; required\n"
    "  mask                        0 or 1; a 0 leaves the position out of the loss; default all 1\n"
    "  weights                     factors of the loss; default all 1\n"
    "  logprobs, advantages        required by ppo: the log-probs the targets were sampled with,\n"
    "                              \"NaN\" allowed where mask is 0, and the advantages\n"
    "  sampling_params             {\"temperature\": 0.7}: how the targets were sampled\n"
    "  sampled_under               {\"state_id\": BASE64, \"numerics_id\": \"fp32-v1-l1\"}, from "
    "the\n"
    "                              header of `lockstep generate --json`: logprobs are compared "
    "with\n"
    "                              the training forward bit by bit\n";

absl::StatusOr<std::vector<v1::Datum>> ReadDatumFile(std::istream& file, const std::string& name) {
  std::vector<v1::Datum> data;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    v1::Datum datum;
    const auto parsed = google::protobuf::util::JsonStringToMessage(line, &datum);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": ",
                       absl::string_view(parsed.message().data(), parsed.message().size())));
    }
    data.push_back(std::move(datum));
  }
  if (data.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": holds no data"));
  return data;
}

}  // namespace lockstep::cli
