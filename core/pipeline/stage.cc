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

// Runs one kind of plan each and reports what there is to say.
struct Executor {
  StageModel& stage;
  BoundedQueue<StageReport>& reports;

  template <typename Body>
  void Report(uint64_t id, absl::StatusOr<Body> body) {
    StageReport report;
    report.id = id;
    report.stage = stage.communicator().rank();
    if (body.ok()) {
      report.body = *std::move(body);
    } else {
      // Moved, here and below: whoever takes the report has the only reference to the message. Its
      // count is in Abseil's library, whose atomics ThreadSanitizer does not see.
      report.status = std::move(body).status();
    }
    // Only fails when the driver has closed the queue and listens no more.
    (void)reports.Push(std::move(report), absl::InfiniteFuture());
  }

  void operator()(const InferencePlan& plan) {
    absl::Status status = RunInference(stage, plan, [&](InferenceReport body) {
      Report(plan.id, absl::StatusOr<InferenceReport>(std::move(body)));
    });
    if (!status.ok()) Report(plan.id, absl::StatusOr<InferenceReport>(std::move(status)));
  }
  void operator()(const TrainingPlan& plan) { Report(plan.id, RunTraining(stage, plan)); }
  void operator()(const GradientNormPlan& plan) { Report(plan.id, RunGradientNorm(stage, plan)); }
  void operator()(const OptimizerPlan& plan) {
    Report(plan.id, absl::StatusOr<OptimizerReport>(RunOptimizer(stage, plan)));
  }
  void operator()(const ReleaseWeightsPlan& plan) { stage.ReleaseWeights(plan.version); }
  void operator()(const ReadTensorPlan& plan) {
    std::optional<ReadTensorReport> body = ReadTensor(stage, plan);
    if (!body.has_value()) return;
    Report(plan.id, absl::StatusOr<ReadTensorReport>(*std::move(body)));
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
    std::visit(Executor{*model_, *reports_}, *plan);
  }
}

}  // namespace lockstep
