#include "core/pipeline/stage_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lockstep {
namespace {

StageContext MakeContext(const StageOptions& options, const RopeTables& rope, WorkerSet& workers) {
  StageContext context;
  context.config = options.config;
  context.range = options.range;
  context.kernels = options.kernels;
  context.parallel = &workers;
  context.rope_cosine = rope.cosine();
  context.rope_sine = rope.sine();
  return context;
}

}  // namespace

StageModel::StageModel(const StageOptions& options, std::unique_ptr<WorkerSet> workers,
                       std::unique_ptr<Communicator> communicator)
    : workers_(std::move(workers)),
      communicator_(std::move(communicator)),
      rope_(*options.config),
      context_(MakeContext(options, rope_, *workers_)),
      optimizer_(*options.config, options.range),
      kv_(*options.config, options.kernels->profile(),
          options.range.layer_end - options.range.layer_begin, options.kv_page_count,
          options.kv_page_size),
      scratch_(Activations::Keep::kNothing, context_),
      sampler_(*options.kernels, *workers_) {
  if (options.range.last) head_.emplace(context_);
}

absl::StatusOr<std::unique_ptr<StageModel>> StageModel::Create(
    const StageOptions& options, const HfDirectory& directory,
    std::unique_ptr<Communicator> communicator) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<WorkerSet> workers,
                            WorkerSet::Create(options.thread_count));
  std::unique_ptr<StageModel> stage(
      new StageModel(options, std::move(workers), std::move(communicator)));
  LOCKSTEP_RETURN_IF_ERROR(
      directory.Read(*stage->workers_, stage->optimizer_.params(), stage->optimizer_.masters()));
  stage->MakeWeights(0);
  return stage;
}

absl::StatusOr<WeightView> StageModel::Weights(uint64_t version) const {
  const auto found = weights_.find(version);
  if (found == weights_.end()) {
    return absl::InternalError(
        absl::StrCat("weight version ", version, " is not on stage ", communicator_->rank()));
  }
  return WeightView{found->second};
}

void StageModel::MakeWeights(uint64_t version) {
  weights_[version] = optimizer_.MakeWeights(kernels(), *workers_, version);
}

void StageModel::ReleaseWeights(uint64_t version) { weights_.erase(version); }

absl::StatusOr<Buffer<float>> StageModel::ReceiveHidden(uint64_t tag, int64_t rows) {
  if (context_.range.first) return Buffer<float>(rows * config().hidden_size);
  return ReceiveRows(communicator_->rank() - 1, tag, rows);
}

absl::Status StageModel::SendHidden(uint64_t tag, int64_t rows, Buffer<float> hidden) {
  return SendRows(communicator_->rank() + 1, tag, rows, std::move(hidden));
}

absl::StatusOr<Buffer<float>> StageModel::ReceiveHiddenGradient(uint64_t tag, int64_t rows) {
  return ReceiveRows(communicator_->rank() + 1, tag, rows);
}

absl::Status StageModel::SendHiddenGradient(uint64_t tag, int64_t rows, Buffer<float> gradient) {
  return SendRows(communicator_->rank() - 1, tag, rows, std::move(gradient));
}

absl::StatusOr<Buffer<float>> StageModel::ReceiveRows(int peer, uint64_t tag, int64_t rows) {
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, communicator_->Receive(peer, tag));
  if (tensor.shape != std::vector<int64_t>{rows, config().hidden_size}) {
    return absl::InternalError(absl::StrCat("rank ", communicator_->rank(), " expected ", rows,
                                            " rows from rank ", peer, ", tag ", tag));
  }
  return std::move(tensor.data);
}

absl::Status StageModel::SendRows(int peer, uint64_t tag, int64_t rows, Buffer<float> values) {
  Tensor tensor;
  tensor.shape = {rows, config().hidden_size};
  tensor.data = std::move(values);
  return communicator_->Send(peer, tag, std::move(tensor));
}

}  // namespace lockstep
