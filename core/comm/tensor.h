// A tensor on its way between two ranks: what a communicator carries.
//
// A value that owns its memory; moved, never copied by accident.
#ifndef LOCKSTEP_CORE_COMM_TENSOR_H_
#define LOCKSTEP_CORE_COMM_TENSOR_H_

#include <cstdint>
#include <vector>

#include "core/device/buffer.h"

namespace lockstep {

enum class DataType { kFloat32 };

struct Tensor {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape;  // any number of dimensions
  Buffer<float> data;          // at least size() elements

  int64_t size() const {
    int64_t product = 1;
    for (int64_t dimension : shape) product *= dimension;
    return product;
  }
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_COMM_TENSOR_H_
