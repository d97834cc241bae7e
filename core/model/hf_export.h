#ifndef LOCKSTEP_CORE_MODEL_HF_EXPORT_H_
#define LOCKSTEP_CORE_MODEL_HF_EXPORT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/model/model_config.h"
#include "core/model/param_spec.h"

namespace lockstep {

// The parts of a Hugging Face directory being written. Pure functions, and one that writes.

// A small file beside the weights.
struct TextFile {
  std::string name;
  std::string contents;
};

// config.json and generation_config.json of a model, in the spelling that every version of
// transformers reads ("rope_theta", "torch_dtype": "float32").
std::string MakeConfigJson(const ModelConfig& config);
std::string MakeGenerationConfigJson(const ModelConfig& config);

// Writes `directory` atomically (file_io.h): `texts`, and model.safetensors in F32 of
// ModelParams(config). `values` is called once per tensor in canonical order, and what it returns
// is read before the next call.
absl::Status WriteModelDirectory(const std::string& directory, absl::Span<const TextFile> texts,
                                 const ModelConfig& config,
                                 absl::FunctionRef<const float*(const ParamSpec&)> values);

// The shape that a file states: [rows, cols], or [cols] of a vector.
std::vector<int64_t> ShapeInFile(const ParamSpec& spec);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_HF_EXPORT_H_
