#include "kernels/cpu/digest.h"

#include <algorithm>
#include <vector>

#include "kernels/digest_mix.h"

namespace lockstep::kernels::cpu {

Digest128 DigestElements(Parallel& parallel, const float* x, int64_t n, uint64_t first_index) {
  // Elements with a partial sum of their own, so that ranges of threads meet no shared state.
  constexpr int64_t kBlock = 1 << 16;
  std::vector<Digest128> partials((n + kBlock - 1) / kBlock);
  parallel.For(static_cast<int64_t>(partials.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      Digest128 sum;
      for (int64_t i = block * kBlock; i < std::min((block + 1) * kBlock, n); ++i) {
        sum += MixElement(x[i], first_index + i);
      }
      partials[block] = sum;
    }
  });
  Digest128 digest;
  for (const Digest128& partial : partials) digest += partial;
  return digest;
}

}  // namespace lockstep::kernels::cpu
