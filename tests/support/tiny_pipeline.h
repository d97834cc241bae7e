// A pipeline over the tiny model of tiny_model.h, for tests of what runs on one. Thread compatible:
// the test's thread is the engine loop.
#ifndef LOCKSTEP_TESTS_SUPPORT_TINY_PIPELINE_H_
#define LOCKSTEP_TESTS_SUPPORT_TINY_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/model_config.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/step_plan.h"
#include "core/request/train_request.h"
#include "tests/support/tiny_model.h"

namespace lockstep {

struct TinyPipelineOptions {
  TinyFamily family = TinyFamily::kTied;
  int64_t stages = 1;
  int64_t threads = 1;
  int64_t kv_page_count = 64;
  int64_t kv_page_size = 16;
  uint64_t seed = 7;             // names the weights
  std::string huge_tensor = {};  // as of WriteTinyModel
  float huge_value = 3e38f;
};

class TinyPipeline {
 public:
  // Weights of version 0; the model's directory is gone once they are read.
  explicit TinyPipeline(const TinyPipelineOptions& options = {});

  const ModelConfig& config() const { return config_; }
  Pipeline& pipeline() { return *pipeline_; }
  // Ends the pipeline, as its owner does.
  void Destroy() { pipeline_.reset(); }

  // Digests of the weights as they are.
  OptimizerReport Digests();
  // An AdamW step of the accumulated gradients; the new weights are version `new_version`.
  OptimizerReport Step(uint64_t new_version);

 private:
  const ModelConfig config_;
  std::unique_ptr<Pipeline> pipeline_;
};

// The fastest kernels of this machine, made once.
const kernels::Kernels& FastestKernels();

// `count` training data of lengths around 20, the first of length 1, some positions masked: a
// function of its arguments.
std::vector<Datum> TinyData(uint64_t seed, int64_t count);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_TINY_PIPELINE_H_
