#include "kernels/reference/reference_kernels.h"

#include <memory>

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateReferenceKernels() {
  return std::make_unique<reference::ReferenceKernels>();
}

}  // namespace lockstep::kernels
