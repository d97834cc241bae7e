#include "core/pipeline/stage_training.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/model/backward.h"
#include "core/model/token_loss.h"

namespace lockstep {
namespace {

// What a micro-batch keeps on a stage from its forward to its backward.
struct InFlight {
  InFlight(Activations::Keep keep, const StageContext& context) : activations(keep, context) {}

  KvArena kv;  // its own pages: page i of the arena is page i of the micro-batch
  Activations activations;
  // Last stage only: input of the head, and what its second pass needs.
  Buffer<float> hidden;            // [M, H]
  std::vector<float> log_sum_exp;  // [M]
  std::vector<float> coefficient;  // [M]
};

// Pages that the micro-batch's sequences name.
int64_t PageCount(const TokenBatch& batch) {
  int64_t count = 0;
  for (const SequenceSlice& sequence : batch.sequences) {
    count += static_cast<int64_t>(sequence.pages.size());
  }
  return count;
}

// Tags tell the tensors of a plan apart, so that a stage out of step is found out at once.
uint64_t ForwardTag(uint64_t plan, int64_t micro_batch) {
  return plan << 24 | static_cast<uint64_t>(micro_batch) << 1;
}
uint64_t BackwardTag(uint64_t plan, int64_t micro_batch) {
  return ForwardTag(plan, micro_batch) | 1;
}

// One training plan on one stage.
class TrainingRun {
 public:
  TrainingRun(StageModel& stage, const TrainingPlan& plan, const WeightView& weights)
      : stage_(stage),
        plan_(plan),
        weights_(weights),
        loss_(MakeTokenLoss(plan.loss, stage.kernels())) {}

  absl::StatusOr<TrainingReport> Run() {
    const std::vector<ScheduleEvent> events =
        Schedule(plan_.schedule, stage_.communicator().size(),
                 static_cast<int64_t>(plan_.micro_batches.size()), stage_.communicator().rank());
    for (const ScheduleEvent& event : events) {
      LOCKSTEP_RETURN_IF_ERROR(event.kind == ScheduleEvent::Kind::kForward
                                   ? RunForward(event.micro_batch)
                                   : RunBackward(event.micro_batch));
    }
    return std::move(report_);
  }

 private:
  bool last() const { return stage_.context().range.last; }

  absl::Status RunForward(int64_t index) {
    const TrainingMicroBatch& micro_batch = plan_.micro_batches[index];
    const int64_t rows = micro_batch.batch.row_count();
    const bool backward_follows = plan_.schedule != ScheduleKind::kForwardOnly;
    auto state = std::make_unique<InFlight>(
        backward_follows ? Activations::Keep::kAllLayers : Activations::Keep::kNothing,
        stage_.context());
    state->kv = KvArena(stage_.config(), stage_.kernels().profile(),
                        stage_.context().range.layer_end - stage_.context().range.layer_begin,
                        PageCount(micro_batch.batch), stage_.kv().page_size());

    const uint64_t tag = ForwardTag(plan_.id, index);
    LOCKSTEP_ASSIGN_OR_RETURN(Buffer<float> hidden, stage_.ReceiveHidden(tag, rows));
    Forward(stage_.context(), weights_, micro_batch.batch, state->kv, state->activations,
            hidden.data());
    if (last()) {
      state->hidden = std::move(hidden);
      RunLoss(micro_batch, *state);
    } else {
      LOCKSTEP_RETURN_IF_ERROR(stage_.SendHidden(tag, rows, std::move(hidden)));
    }
    if (backward_follows) in_flight_[index] = std::move(state);
    return absl::OkStatus();
  }

  // First pass of the head: statistics, then each datum's coefficients.
  void RunLoss(const TrainingMicroBatch& micro_batch, InFlight& state) {
    const TokenLossInputs& in = micro_batch.loss_inputs;
    Head::TokenStatistics statistics =
        stage_.head().Statistics(weights_, state.hidden.data(), in.temperature, in.target);

    TokenLossOutputs out;
    out.logprob = std::move(statistics.log_prob);
    out.entropy = std::move(statistics.entropy);
    out.loss.resize(out.logprob.size());
    out.clipped.resize(out.logprob.size());
    state.coefficient.resize(out.logprob.size());
    state.log_sum_exp = std::move(statistics.log_sum_exp);
    for (size_t i = 0; i + 1 < micro_batch.datum_begins.size(); ++i) {
      const int64_t begin = micro_batch.datum_begins[i];
      const int64_t count = micro_batch.datum_begins[i + 1] - begin;
      const auto of = [&](const std::vector<float>& values) {
        return absl::MakeConstSpan(values).subspan(begin, count);
      };
      loss_->Evaluate({of(out.logprob), of(out.entropy), of(in.mask), of(in.weight),
                       of(in.old_logprob), of(in.advantage)},
                      absl::MakeSpan(out.loss).subspan(begin, count),
                      absl::MakeSpan(state.coefficient).subspan(begin, count),
                      absl::MakeSpan(out.clipped).subspan(begin, count));
    }
    report_.micro_batches.push_back(std::move(out));
  }

  absl::Status RunBackward(int64_t index) {
    const TrainingMicroBatch& micro_batch = plan_.micro_batches[index];
    const int64_t rows = micro_batch.batch.row_count();
    const std::unique_ptr<InFlight> state = std::move(in_flight_.at(index));
    in_flight_.erase(index);

    const uint64_t tag = BackwardTag(plan_.id, index);
    Buffer<float> dhidden;
    if (last()) {
      const TokenLossInputs& in = micro_batch.loss_inputs;
      dhidden = Buffer<float>(rows * stage_.config().hidden_size);
      stage_.head().Backward(weights_, state->hidden.data(), micro_batch.datum_begins,
                             in.temperature, in.target, state->log_sum_exp, state->coefficient,
                             stage_.optimizer(), dhidden.data());
    } else {
      LOCKSTEP_ASSIGN_OR_RETURN(dhidden, stage_.ReceiveHiddenGradient(tag, rows));
    }
    Backward(stage_.context(), weights_, micro_batch.batch, state->kv, state->activations,
             stage_.optimizer(), dhidden.data());
    if (stage_.context().range.first) return absl::OkStatus();
    return stage_.SendHiddenGradient(tag, rows, std::move(dhidden));
  }

  StageModel& stage_;
  const TrainingPlan& plan_;
  const WeightView weights_;
  const std::unique_ptr<TokenLoss> loss_;

  std::map<int64_t, std::unique_ptr<InFlight>> in_flight_;  // by micro-batch
  TrainingReport report_;
};

// The embedding's and the head's accumulators of a tied model lie on the two ends of the pipeline.
// Each end sends its own and adds both in the same order, so both copies take the same step.
absl::Status CombineTied(StageModel& stage, uint64_t tag) {
  const StageRange& range = stage.context().range;
  if (!stage.config().tie_word_embeddings || !(range.first || range.last)) return absl::OkStatus();
  if (range.first && range.last) {
    stage.optimizer().CombineTied(stage.kernels(), stage.parallel(), nullptr);
    return absl::OkStatus();
  }
  const int other = range.first ? stage.communicator().size() - 1 : 0;
  const float* own = range.first ? stage.optimizer().gradient(stage.optimizer().embedding_index())
                                 : stage.optimizer().head_gradient();
  Tensor tensor;
  tensor.shape = {stage.config().vocab_size, stage.config().hidden_size};
  tensor.data = Buffer<float>(tensor.size());
  std::memcpy(tensor.data.data(), own, static_cast<size_t>(tensor.size()) * sizeof(float));
  LOCKSTEP_RETURN_IF_ERROR(stage.communicator().Send(other, tag, std::move(tensor)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor received, stage.communicator().Receive(other, tag));
  stage.optimizer().CombineTied(stage.kernels(), stage.parallel(), received.data.data());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingReport> RunTraining(StageModel& stage, const TrainingPlan& plan) {
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightView weights, stage.Weights(plan.weight_version));
  return TrainingRun(stage, plan, weights).Run();
}

absl::StatusOr<GradientNormReport> RunGradientNorm(StageModel& stage,
                                                   const GradientNormPlan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(CombineTied(stage, plan.id));
  GradientNormReport report;
  report.sums_of_squares = stage.optimizer().SumsOfSquares(stage.kernels(), stage.parallel());
  for (const ParamSpec& spec : stage.optimizer().params()) {
    report.canonical_begins.push_back(spec.canonical_begin);
  }
  return report;
}

OptimizerReport RunOptimizer(StageModel& stage, const OptimizerPlan& plan) {
  OptimizerState& optimizer = stage.optimizer();
  if (!plan.skip) {
    optimizer.Apply(stage.kernels(), stage.parallel(), plan.scalars);
    stage.MakeWeights(plan.new_version);
  }
  optimizer.ZeroGradients();
  return {optimizer.WeightsDigest(stage.kernels(), stage.parallel()),
          optimizer.MomentsDigest(stage.kernels(), stage.parallel())};
}

}  // namespace lockstep
