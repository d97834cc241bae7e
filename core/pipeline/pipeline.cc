#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/comm/loopback.h"

namespace lockstep {
namespace {

// Reports under way: up to one per stage of every inference plan in flight and of a training call.
constexpr int kReportsMax = 8192;

// Threads of `stage`: an even share, earlier stages take the remainder, nobody has none.
int ThreadsOf(const PipelineOptions& options, int64_t stage) {
  const int64_t share = options.thread_count / options.stage_count;
  const int64_t rest = options.thread_count % options.stage_count;
  return static_cast<int>(std::max<int64_t>(1, share + (stage < rest ? 1 : 0)));
}

}  // namespace

Pipeline::Pipeline(const ModelConfig& config) : config_(config), reports_(kReportsMax) {}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(const PipelineOptions& options,
                                                           const HfDirectory& directory) {
  const std::vector<StageRange> ranges = SplitStages(*options.config, options.stage_count);
  std::vector<std::unique_ptr<Communicator>> ranks = CreateLoopbackGroup(
      "pipeline", static_cast<int>(options.stage_count), options.receive_timeout);

  std::unique_ptr<Pipeline> pipeline(new Pipeline(*options.config));
  for (int64_t i = 0; i < options.stage_count; ++i) {
    StageOptions stage;
    stage.config = options.config;
    stage.range = ranges[i];
    stage.kernels = options.kernels;
    stage.thread_count = ThreadsOf(options, i);
    stage.kv_page_count = options.kv_page_count;
    stage.kv_page_size = options.kv_page_size;
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<StageModel> model,
                              StageModel::Create(stage, directory, std::move(ranks[i])));
    pipeline->stages_.push_back(std::make_unique<Stage>(std::move(model), &pipeline->reports_));
  }
  return pipeline;
}

Pipeline::~Pipeline() {
  for (const std::unique_ptr<Stage>& stage : stages_) stage->communicator().Shutdown();
  reports_.Close();
  stages_.clear();
}

absl::StatusOr<uint64_t> Pipeline::Submit(InferencePlan plan) {
  plan.id = next_id_++;
  const uint64_t id = plan.id;
  LOCKSTEP_RETURN_IF_ERROR(Broadcast(std::move(plan)));
  ++inference_in_flight_;
  return id;
}

absl::StatusOr<FinishedInference> Pipeline::NextInference() {
  LOCKSTEP_CHECK_GT(inference_in_flight_, 0);
  while (finished_.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(StageReport report, NextReport());
    TakeInference(std::move(report));
  }
  FinishedInference finished = std::move(finished_.front());
  finished_.pop_front();
  --inference_in_flight_;
  return finished;
}

void Pipeline::TakeInference(StageReport report) {
  auto& body = std::get<InferenceReport>(report.body);
  NonFiniteRows& non_finite = non_finite_[report.id];
  non_finite.merge(body.non_finite);  // the earlier stage's word stands
  if (report.stage + 1 < stage_count()) return;
  finished_.push_back({report.id, std::move(body.results), std::move(non_finite)});
  non_finite_.erase(report.id);
}

absl::StatusOr<TrainingReport> Pipeline::Train(TrainingPlan plan) {
  plan.id = next_id_++;
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  // Only the last stage takes the loss, so only it is sent what the loss needs.
  TrainingPlan without_loss = plan;
  for (TrainingMicroBatch& micro_batch : without_loss.micro_batches) micro_batch.loss_inputs = {};
  for (int64_t i = 0; i + 1 < stage_count(); ++i) {
    failure_.Update(stages_[i]->Enqueue(without_loss));
  }
  const uint64_t id = plan.id;
  failure_.Update(stages_.back()->Enqueue(std::move(plan)));
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<StageReport> reports, Await(id, stage_count()));
  return std::get<TrainingReport>(std::move(reports.back().body));
}

absl::StatusOr<SumsOfSquares> Pipeline::GradientNorm() {
  const uint64_t id = next_id_++;
  LOCKSTEP_RETURN_IF_ERROR(Broadcast(GradientNormPlan{id}));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<StageReport> reports, Await(id, stage_count()));

  const std::vector<ParamSpec> params = ModelParams(config_);
  SumsOfSquares sums(params.size(), 0.0);
  for (const StageReport& report : reports) {
    const auto& body = std::get<GradientNormReport>(report.body);
    for (size_t i = 0; i < body.canonical_begins.size(); ++i) {
      const auto found = std::lower_bound(
          params.begin(), params.end(), body.canonical_begins[i],
          [](const ParamSpec& spec, int64_t begin) { return spec.canonical_begin < begin; });
      LOCKSTEP_CHECK(found != params.end() && found->canonical_begin == body.canonical_begins[i]);
      // A tied copy adds the zero that its stage reports for it.
      sums[found - params.begin()] += body.sums_of_squares[i];
    }
  }
  return sums;
}

absl::StatusOr<OptimizerReport> Pipeline::Optimize(OptimizerPlan plan) {
  plan.id = next_id_++;
  LOCKSTEP_RETURN_IF_ERROR(Broadcast(plan));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<StageReport> reports, Await(plan.id, stage_count()));
  OptimizerReport whole;
  for (const StageReport& report : reports) {
    const auto& body = std::get<OptimizerReport>(report.body);
    whole.weights_digest += body.weights_digest;
    whole.moments_digest += body.moments_digest;
  }
  return whole;
}

void Pipeline::ReleaseWeights(uint64_t version) {
  Broadcast(ReleaseWeightsPlan{version}).IgnoreError();  // kept in failure_
}

absl::StatusOr<Buffer<float>> Pipeline::ReadTensor(const std::string& name) {
  // No stage would answer.
  const std::vector<ParamSpec> params = ModelParams(config_);
  if (std::none_of(params.begin(), params.end(),
                   [&](const ParamSpec& spec) { return spec.name == name; })) {
    return absl::NotFoundError(absl::StrCat("no tensor ", name));
  }
  const uint64_t id = next_id_++;
  LOCKSTEP_RETURN_IF_ERROR(Broadcast(ReadTensorPlan{id, name}));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<StageReport> reports, Await(id, 1));
  return std::move(std::get<ReadTensorReport>(reports.front().body).values);
}

absl::Status Pipeline::Broadcast(const StagePlan& plan) {
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  for (const std::unique_ptr<Stage>& stage : stages_) failure_.Update(stage->Enqueue(plan));
  return failure_;
}

absl::StatusOr<std::vector<StageReport>> Pipeline::Await(uint64_t id, int64_t count) {
  std::vector<StageReport> reports;
  while (static_cast<int64_t>(reports.size()) < count) {
    LOCKSTEP_ASSIGN_OR_RETURN(StageReport report, NextReport());
    if (report.id == id) {
      reports.push_back(std::move(report));
    } else {
      TakeInference(std::move(report));
    }
  }
  std::sort(reports.begin(), reports.end(),
            [](const StageReport& a, const StageReport& b) { return a.stage < b.stage; });
  return reports;
}

absl::StatusOr<StageReport> Pipeline::NextReport() {
  LOCKSTEP_RETURN_IF_ERROR(failure_);
  LOCKSTEP_ASSIGN_OR_RETURN(StageReport report, reports_.Pop(absl::InfiniteFuture()));
  if (!report.status.ok()) {
    failure_ = absl::UnavailableError(
        absl::StrCat("pipeline stage ", report.stage, " failed: ", report.status.ToString()));
    return failure_;
  }
  return report;
}

}  // namespace lockstep
