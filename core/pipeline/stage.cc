#include "core/pipeline/stage.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/pipeline/stage_inference.h"
#include "core/pipeline/stage_training.h"

namespace lockstep {
namespace {

// The tensor if this stage answers for it: a tied embedding is also on the last stage, and silent
// there.
std::optional<ReadTensorReport> ReadTensor(StageModel& stage, const ReadTensorPlan& plan) {
  OptimizerState& optimizer = stage.optimizer();
  for (size_t i = 0; i < optimizer.params().size(); ++i) {
    const ParamSpec& spec = optimizer.params()[i];
    const int index = static_cast<int>(i);
    if (spec.name != plan.name) continue;
    if (index == optimizer.embedding_index() && !stage.context().range.first) continue;
    ReadTensorReport report;
    report.values = Buffer<float>(spec.size());
    std::memcpy(report.values.data(), optimizer.master(index),
                static_cast<size_t>(spec.size()) * sizeof(float));
    return report;
  }
  return std::nullopt;
}

// Runs one kind of plan each; the report's id and stage are filled in by the caller. No value: this
// stage has nothing to say.
struct Executor {
  StageModel& stage;

  template <typename Body>
  static std::optional<StageReport> Report(uint64_t id, absl::StatusOr<Body> body) {
    StageReport report;
    report.id = id;
    report.status = body.status();
    if (body.ok()) report.body = *std::move(body);
    return report;
  }

  std::optional<StageReport> operator()(const InferencePlan& plan) {
    absl::StatusOr<InferenceReport> body = RunInference(stage, plan);
    if (body.ok() && !stage.context().range.last) return std::nullopt;
    return Report(plan.id, std::move(body));
  }
  std::optional<StageReport> operator()(const TrainingPlan& plan) {
    return Report(plan.id, RunTraining(stage, plan));
  }
  std::optional<StageReport> operator()(const GradientNormPlan& plan) {
    return Report(plan.id, RunGradientNorm(stage, plan));
  }
  std::optional<StageReport> operator()(const OptimizerPlan& plan) {
    return Report(plan.id, absl::StatusOr<OptimizerReport>(RunOptimizer(stage, plan)));
  }
  std::optional<StageReport> operator()(const ReleaseWeightsPlan& plan) {
    stage.ReleaseWeights(plan.version);
    return std::nullopt;
  }
  std::optional<StageReport> operator()(const ReadTensorPlan& plan) {
    std::optional<ReadTensorReport> body = ReadTensor(stage, plan);
    if (!body.has_value()) return std::nullopt;
    return Report(plan.id, absl::StatusOr<ReadTensorReport>(*std::move(body)));
  }
};

}  // namespace

Stage::Stage(std::unique_ptr<StageModel> model, BoundedQueue<StageReport>* reports)
    : model_(std::move(model)), reports_(reports), plans_(kPlansMax), thread_([this] { Run(); }) {}

Stage::~Stage() {
  plans_.Close();
  thread_.join();
}

absl::Status Stage::Enqueue(StagePlan plan) {
  if (plans_.TryPush(std::move(plan))) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("stage ", model_->communicator().rank(), " holds ", kPlansMax, " plans"));
}

void Stage::Run() {
  while (true) {
    absl::StatusOr<StagePlan> plan = plans_.Pop(absl::InfiniteFuture());
    if (!plan.ok()) return;
    Execute(*plan);
  }
}

void Stage::Execute(const StagePlan& plan) {
  std::optional<StageReport> report = std::visit(Executor{*model_}, plan);
  if (!report.has_value()) return;
  report->stage = model_->communicator().rank();
  // Only fails when the driver has closed the queue and listens no more.
  (void)reports_->Push(*std::move(report), absl::InfiniteFuture());
}

}  // namespace lockstep
