#ifndef LOCKSTEP_CORE_MODEL_HF_DIRECTORY_H_
#define LOCKSTEP_CORE_MODEL_HF_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/model_config.h"
#include "core/model/param_spec.h"
#include "kernels/parallel.h"

namespace lockstep {

// The weights of a Hugging Face directory: model.safetensors, or shards listed by
// model.safetensors.index.json. Headers are checked in full (sizes, offsets, overlaps, dtypes)
// before anything is read; the files stay open. Thread compatible.
class HfDirectory {
 public:
  // NOT_FOUND, INVALID_ARGUMENT or DATA_LOSS naming file and tensor: missing, extra or misshapen
  // tensors against ModelParams(config), truncated or corrupted files.
  static absl::StatusOr<HfDirectory> Open(const std::string& model_directory,
                                          const ModelConfig& config);

  // Reads tensors as fp32 (bf16 and f16 widen exactly) into `values`, one behind the other. A
  // non-finite weight is DATA_LOSS naming the first one's tensor and index; other errors are those
  // of InputFile.
  absl::Status Read(kernels::Parallel& parallel, absl::Span<const ParamSpec> specs,
                    float* values) const;

  HfDirectory(HfDirectory&&) noexcept;
  HfDirectory& operator=(HfDirectory&&) noexcept;
  ~HfDirectory();

 private:
  struct Impl;
  explicit HfDirectory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writes `directory` (which must not exist, its parent must) as transformers reads it: config.json
// and generation_config.json (copied from `source_directory` when not empty, else made),
// model.safetensors in F32, and every tokenizer file of `source_directory`. Everything goes to a
// temporary sibling first, is synced, and renamed at the end; a failure leaves nothing behind.
// `values(spec)` gives the tensor's fp32 elements, called in canonical order.
absl::Status WriteHfDirectory(const std::string& directory, const std::string& source_directory,
                              const ModelConfig& config,
                              absl::FunctionRef<const float*(const ParamSpec&)> values);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_HF_DIRECTORY_H_
