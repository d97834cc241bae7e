#ifndef LOCKSTEP_CORE_MODEL_TENSOR_READER_H_
#define LOCKSTEP_CORE_MODEL_TENSOR_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/model/safetensors.h"
#include "kernels/parallel.h"

namespace lockstep {

// A tensor in a file, which is borrowed: its dtype is F32, BF16 or F16, and `elements` are all of
// it.
struct TensorSource {
  const SafetensorsFile* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
  std::string name;
  int64_t elements = 0;
};

// Reads tensors as fp32 (bf16 and f16 widen exactly) into `values`, one behind the other, on all
// threads. A non-finite element is DATA_LOSS naming the first one's tensor and index; other errors
// are those of InputFile.
absl::Status ReadTensors(kernels::Parallel& parallel, absl::Span<const TensorSource> sources,
                         float* values);

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_TENSOR_READER_H_
