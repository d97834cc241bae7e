#include "kernels/reference/reference_kernels.h"

#include <memory>

namespace lockstep::kernels {

std::unique_ptr<Kernels> CreateReferenceKernels(Profile profile) {
  return std::make_unique<reference::ReferenceKernels>(profile);
}

}  // namespace lockstep::kernels
