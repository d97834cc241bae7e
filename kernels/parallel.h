#ifndef LOCKSTEP_KERNELS_PARALLEL_H_
#define LOCKSTEP_KERNELS_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace lockstep::kernels {

// How an operation spreads its independent outputs over threads. Operations never reduce across
// the ranges they are handed: every output element is computed by one call, in canonical order, so
// the number of threads and the way the ranges are cut cannot move a bit.
//
// Thread safety: one `For` at a time; it is called by the thread that owns the stage.
class Parallel {
 public:
  virtual ~Parallel() = default;

  // Calls `body(begin, end)` for disjoint ranges that cover [0, items), and returns when all are
  // done. Ranges hold at least `grain` items, but for the last.
  virtual void For(int64_t items, int64_t grain,
                   absl::FunctionRef<void(int64_t begin, int64_t end)> body) = 0;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PARALLEL_H_
