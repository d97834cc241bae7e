#ifndef LOCKSTEP_KERNELS_REFERENCE_PANELS_H_
#define LOCKSTEP_KERNELS_REFERENCE_PANELS_H_

#include <cstdint>

#include "kernels/shapes.h"

namespace lockstep::kernels::reference {

// Where w[n, k] of a matrix with `columns` columns lies in its packed form.
constexpr int64_t PanelIndex(int64_t n, int64_t k, int64_t columns) {
  return (n / kPanelWidth * columns + k) * kPanelWidth + n % kPanelWidth;
}

inline float Element(const PackedMatrix& w, int64_t n, int64_t k) {
  return w.panels[PanelIndex(n, k, w.k)];
}

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_PANELS_H_
