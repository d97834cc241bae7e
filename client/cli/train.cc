// lockstep train.
#include <algorithm>
#include <fstream>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/datum_file.h"
#include "client/cli/progress.h"

namespace lockstep::cli {
namespace {

struct TrainFlags {
  std::string data;
  std::string loss = "cross_entropy";
  std::string loss_agg_mode = "token-sum";
  int32_t epochs = 1;
  int32_t batch_size = 8;
  bool stop_on_mismatch = false;
  uint64_t first_seq_id = 1;
  absl::optional<float> clip_low;
  absl::optional<float> clip_high;
  absl::optional<float> beta1;
  absl::optional<float> beta2;
  absl::optional<float> epsilon;
  absl::optional<float> weight_decay;
  absl::optional<float> grad_clip_norm;
  std::string run_id;
  float learning_rate = 0;
  int32_t micro_batch_size = 0;

  void AddTo(FlagSet& flags) {
    flags.AddRequired("data", "JSONL file; required", &data);
    flags.AddRequired("run-id", "names the run; required", &run_id);
    flags.AddRequired("lr", "learning rate; required", &learning_rate);
    flags.Add("epochs", "times through the file, in its order; default 1", &epochs);
    flags.Add("batch-size", "data of one optimizer step; default 8", &batch_size);
    flags.Add("micro-batch-size", "changes no bit; default 0: the server's", &micro_batch_size);
    flags.Add("loss", "cross_entropy or ppo; default cross_entropy", &loss);
    flags.Add("loss-agg-mode", "token-sum or token-mean; default token-sum", &loss_agg_mode);
    flags.Add("clip-low", "ppo's lower bound of the ratio; default 0.8", &clip_low);
    flags.Add("clip-high", "ppo's upper bound of the ratio; default 1.2", &clip_high);
    flags.Add("beta1", "AdamW; default 0.9", &beta1);
    flags.Add("beta2", "AdamW; default 0.95", &beta2);
    flags.Add("epsilon", "AdamW; default 1e-8", &epsilon);
    flags.Add("weight-decay", "AdamW; default 0", &weight_decay);
    flags.Add("grad-clip-norm", "default 0, off", &grad_clip_norm);
    flags.Add("first-seq-id", "of the run's first call here, to go on with it; default 1",
              &first_seq_id);
    flags.Add("stop-on-mismatch", "end with status 1 when log-probs differ; default false",
              &stop_on_mismatch);
  }

  // All but the data and the seq_id.
  absl::StatusOr<v1::TrainStepRequest> ToRequest() const {
    if (epochs < 1) return absl::InvalidArgumentError("--epochs: must be >= 1");
    if (batch_size < 1) return absl::InvalidArgumentError("--batch-size: must be >= 1");
    v1::TrainStepRequest request;
    request.mutable_call()->set_run_id(run_id);
    request.set_micro_batch_size(micro_batch_size);
    if (loss == "cross_entropy") {
      request.mutable_loss()->set_kind(v1::LOSS_KIND_CROSS_ENTROPY);
    } else if (loss == "ppo") {
      request.mutable_loss()->set_kind(v1::LOSS_KIND_PPO);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--loss: must be cross_entropy or ppo, is \"", loss, "\""));
    }
    if (loss_agg_mode == "token-sum") {
      request.set_loss_agg_mode(v1::LOSS_AGG_MODE_TOKEN_SUM);
    } else if (loss_agg_mode == "token-mean") {
      request.set_loss_agg_mode(v1::LOSS_AGG_MODE_TOKEN_MEAN);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--loss-agg-mode: must be token-sum or token-mean, is \"", loss_agg_mode, "\""));
    }
    if (clip_low.has_value()) request.mutable_loss()->set_clip_low_threshold(*clip_low);
    if (clip_high.has_value()) request.mutable_loss()->set_clip_high_threshold(*clip_high);
    v1::AdamWParams& adamw = *request.mutable_adamw();
    adamw.set_learning_rate(learning_rate);
    if (beta1.has_value()) adamw.set_beta1(*beta1);
    if (beta2.has_value()) adamw.set_beta2(*beta2);
    if (epsilon.has_value()) adamw.set_epsilon(*epsilon);
    if (weight_decay.has_value()) adamw.set_weight_decay(*weight_decay);
    if (grad_clip_norm.has_value()) adamw.set_grad_clip_norm(*grad_clip_norm);
    return request;
  }
};

std::string Describe(const v1::TrainStepResponse& response) {
  const v1::TrainMetrics& metrics = response.metrics();
  std::string text =
      absl::StrFormat("loss %.4f  grad norm %.3g  mismatched %d of %d  %.0f tok/s", metrics.loss(),
                      response.optim_metrics().grad_norm(), metrics.mismatched_tokens(),
                      metrics.compared_tokens(), metrics.tokens_per_second());
  if (response.optim_metrics().skipped()) {
    absl::StrAppend(&text, "  SKIPPED, not finite: ", response.optim_metrics().non_finite_tensor());
  }
  return text;
}

// The steps of one run over the data.
class TrainingRun {
 public:
  TrainingRun(const TrainFlags& flags, v1::TrainStepRequest request, std::vector<v1::Datum> data)
      : flags_(flags), request_(std::move(request)), data_(std::move(data)) {}

  int Execute(Client& client, const Command& command, const Surroundings& surroundings) {
    const int64_t size = static_cast<int64_t>(data_.size());
    const int64_t steps_per_epoch = (size + flags_.batch_size - 1) / flags_.batch_size;
    Progress progress(surroundings.err, surroundings.err_is_terminal,
                      steps_per_epoch * flags_.epochs, absl::Now());
    uint64_t seq_id = flags_.first_seq_id;
    for (int32_t epoch = 0; epoch < flags_.epochs; ++epoch) {
      for (int64_t begin = 0; begin < size; begin += flags_.batch_size) {
        FillRequest(seq_id++, begin, std::min(begin + flags_.batch_size, size));
        absl::StatusOr<v1::TrainStepResponse> response = client.TrainStep(request_);
        if (!response.ok()) {
          progress.End();
          return command.FailRpc(response.status());
        }
        if (command.json()) {
          response->clear_results();
          surroundings.out << ToJsonLine(*response) << std::endl;
        }
        progress.Step(Describe(*response), absl::Now());
        compared_ += response->metrics().compared_tokens();
        mismatched_ += response->metrics().mismatched_tokens();
        if (mismatched_ > 0 && flags_.stop_on_mismatch) return kExitMismatch;
      }
    }
    return kExitOk;
  }

  int64_t compared() const { return compared_; }
  int64_t mismatched() const { return mismatched_; }

 private:
  void FillRequest(uint64_t seq_id, int64_t begin, int64_t end) {
    request_.mutable_call()->set_seq_id(seq_id);
    request_.clear_data();
    for (int64_t i = begin; i < end; ++i) *request_.add_data() = data_[i];
  }

  const TrainFlags& flags_;
  v1::TrainStepRequest request_;
  const std::vector<v1::Datum> data_;
  int64_t compared_ = 0;
  int64_t mismatched_ = 0;
};

}  // namespace

int RunTrain(const Arguments& arguments, const Surroundings& surroundings) {
  Command command("train",
                  absl::StrCat("optimizer steps over a JSONL file of data.\n\n", kDatumFileFormat),
                  surroundings);
  TrainFlags flags;
  flags.AddTo(command.flags());
  if (const int code = command.Parse(arguments); code >= 0) return code;
  absl::StatusOr<v1::TrainStepRequest> request = flags.ToRequest();
  if (!request.ok()) return command.Fail(kExitUsage, request.status());
  std::ifstream file(flags.data);
  if (!file) {
    return command.Fail(kExitUsage,
                        absl::NotFoundError(absl::StrCat(flags.data, ": cannot be read")));
  }
  absl::StatusOr<std::vector<v1::Datum>> data = ReadDatumFile(file, flags.data);
  if (!data.ok()) return command.Fail(kExitUsage, data.status());

  const std::unique_ptr<Client> client = command.Connect();
  if (client == nullptr) return kExitRpc;
  TrainingRun run(flags, *std::move(request), *std::move(data));
  const int code = run.Execute(*client, command, surroundings);
  if (code == kExitRpc || command.json()) return code;
  const absl::StatusOr<v1::GetServerInfoResponse> info = client->Info();
  if (!info.ok()) return command.FailRpc(info.status());
  surroundings.out << "mismatched tokens: " << run.mismatched() << " of " << run.compared()
                   << " compared\nweights digest: " << info->weights_digest()
                   << "\nweight version: " << info->weights().weight_version() << "\n";
  return code;
}

}  // namespace lockstep::cli
