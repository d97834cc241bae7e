#ifndef LOCKSTEP_KERNELS_REFERENCE_PANELS_H_
#define LOCKSTEP_KERNELS_REFERENCE_PANELS_H_

#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::reference {

// Where w[n, k] of a matrix with `columns` columns lies in its packed form, in elements.
constexpr int64_t PanelIndex(Profile profile, int64_t n, int64_t k, int64_t columns) {
  const int64_t panel = n / kPanelWidth;
  const int64_t lane = n % kPanelWidth;
  const int64_t first_row = panel * PanelRows(profile, columns);
  if (profile == Profile::kFp32) return (first_row + k) * kPanelWidth + lane;
  return ((first_row + k / 2) * kPanelWidth + lane) * 2 + k % 2;
}

inline float Element(Profile profile, const PackedMatrix& w, int64_t n, int64_t k) {
  const int64_t index = PanelIndex(profile, n, k, w.k);
  if (profile == Profile::kFp32) return static_cast<const float*>(w.panels)[index];
  return WidenBf16(static_cast<const uint16_t*>(w.panels)[index]);
}

}  // namespace lockstep::kernels::reference

#endif  // LOCKSTEP_KERNELS_REFERENCE_PANELS_H_
