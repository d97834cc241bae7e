#ifndef LOCKSTEP_KERNELS_SERIAL_H_
#define LOCKSTEP_KERNELS_SERIAL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/parallel.h"

namespace lockstep::kernels {

// Runs everything in the calling thread.
class Serial final : public Parallel {
 public:
  void For(int64_t items, int64_t /*grain*/,
           absl::FunctionRef<void(int64_t begin, int64_t end)> body) override {
    if (items > 0) body(0, items);
  }
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SERIAL_H_
