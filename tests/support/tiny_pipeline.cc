#include "tests/support/tiny_pipeline.h"

#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/model/hf_directory.h"
#include "core/model/philox.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {

const kernels::Kernels& FastestKernels() {
  static const auto* const kSelected = [] {
    kernels::Serial serial;
    auto selected = kernels::SelectKernels(serial, std::nullopt);
    LOCKSTEP_CHECK(selected.ok()) << selected.status();
    return new kernels::SelectedKernels(*std::move(selected));
  }();
  return *kSelected->kernels;
}

TinyPipeline::TinyPipeline(const TinyPipelineOptions& options)
    : config_(TinyModelConfig(options.family)) {
  const TempDirectory directory;
  const std::string model = directory.PathOf("model");
  const absl::Status written =
      WriteTinyModel(model, config_, options.seed, options.huge_tensor, options.huge_value);
  LOCKSTEP_CHECK(written.ok()) << written;
  const absl::StatusOr<HfDirectory> opened = HfDirectory::Open(model, config_);
  LOCKSTEP_CHECK(opened.ok()) << opened.status();

  PipelineOptions pipeline;
  pipeline.config = &config_;
  pipeline.kernels = &FastestKernels();
  pipeline.stage_count = options.stages;
  pipeline.thread_count = options.threads;
  pipeline.kv_page_count = options.kv_page_count;
  pipeline.kv_page_size = options.kv_page_size;
  absl::StatusOr<std::unique_ptr<Pipeline>> created = Pipeline::Create(pipeline, *opened);
  LOCKSTEP_CHECK(created.ok()) << created.status();
  pipeline_ = *std::move(created);
}

OptimizerReport TinyPipeline::Digests() {
  OptimizerPlan nothing;
  nothing.skip = true;
  const absl::StatusOr<OptimizerReport> report = pipeline_->Optimize(nothing);
  LOCKSTEP_CHECK(report.ok()) << report.status();
  return *report;
}

OptimizerReport TinyPipeline::Step(uint64_t new_version) {
  const absl::StatusOr<SumsOfSquares> sums = pipeline_->GradientNorm();
  LOCKSTEP_CHECK(sums.ok()) << sums.status();
  OptimizerPlan plan;
  plan.new_version = new_version;
  plan.scalars.learning_rate = 0.01f;
  plan.scalars.beta1 = 0.5f;
  plan.scalars.one_minus_beta1 = 0.5f;
  plan.scalars.beta2 = 0.75f;
  plan.scalars.one_minus_beta2 = 0.25f;
  plan.scalars.inverse_correction1 = 2;
  plan.scalars.inverse_correction2 = 4;
  plan.scalars.epsilon = 1e-8f;
  plan.scalars.decay = 1e-3f;
  const absl::StatusOr<OptimizerReport> report = pipeline_->Optimize(plan);
  LOCKSTEP_CHECK(report.ok()) << report.status();
  return *report;
}

std::vector<Datum> TinyData(uint64_t seed, int64_t count) {
  std::vector<Datum> data;
  for (int64_t d = 0; d < count; ++d) {
    const uint64_t datum_seed = seed * 1000 + static_cast<uint64_t>(d);
    const int64_t length =
        d == 0 ? 1 : 10 + static_cast<int64_t>(20 * PhiloxUniform(datum_seed, 0, 1));
    const std::vector<int32_t> tokens = TinyTokens(datum_seed, length + 1);
    Datum& datum = data.emplace_back();
    datum.model_input.assign(tokens.begin(), tokens.end() - 1);
    datum.target_tokens.assign(tokens.begin() + 1, tokens.end());
    for (int64_t i = 0; i < length; ++i) {
      datum.mask.push_back(length > 1 && i < length / 4 ? 0.0f : 1.0f);
      datum.weights.push_back(
          static_cast<float>(0.5 + PhiloxUniform(datum_seed, static_cast<uint64_t>(i), 2)));
    }
  }
  return data;
}

}  // namespace lockstep
