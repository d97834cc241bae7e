#include "core/model/tensor_reader.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "kernels/bf16.h"

namespace lockstep {
namespace {

// IEEE binary16, all of whose numbers are binary32 numbers too.
float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide_exponent = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

// Without a way out in the middle: what is read is finite, and all of it is looked at anyway.
bool AreFinite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t non_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    non_finite |= (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1 : 0;
  }
  return non_finite == 0;
}

// What went wrong first on any of several threads.
class FirstError {
 public:
  void Set(absl::Status status) {
    MutexLock lock(mu_);
    if (status_.ok()) status_ = std::move(status);
  }
  absl::Status Get() {
    MutexLock lock(mu_);
    return status_;
  }

 private:
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// Elements that are read, widened and checked while they are in the second cache.
constexpr int64_t kBlock = 16384;

// `count` elements of one tensor from its element `first` on, at most kBlock.
absl::Status ReadBlock(const TensorSource& source, int64_t first, int64_t count, float* values) {
  const auto read = [&](auto* elements) {
    constexpr int64_t kBytes = sizeof(*elements);
    return source.file->Read(
        *source.entry, first * kBytes,
        {reinterpret_cast<char*>(elements), static_cast<size_t>(count * kBytes)});
  };
  if (source.entry->dtype == "F32") return read(values);
  uint16_t halves[kBlock];
  LOCKSTEP_RETURN_IF_ERROR(read(halves));
  const bool bf16 = source.entry->dtype == "BF16";
  std::transform(halves, halves + count, values,
                 [bf16](uint16_t half) { return bf16 ? kernels::WidenBf16(half) : FromF16(half); });
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadTensors(kernels::Parallel& parallel, absl::Span<const TensorSource> sources,
                         float* values) {
  std::vector<int64_t> begins;
  int64_t total = 0;
  for (const TensorSource& source : sources) {
    const int64_t element_bytes = source.entry->dtype == "F32" ? 4 : 2;
    LOCKSTEP_CHECK_EQ(source.entry->bytes, source.elements * element_bytes) << source.name;
    begins.push_back(total);
    total += source.elements;
  }

  // One range a thread over all tensors, so that they meet once and have the same to do.
  std::atomic<bool> finite = true;
  FirstError error;
  parallel.For((total + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    for (size_t s = 0; s < sources.size(); ++s) {
      const int64_t last = std::min(end * kBlock, begins[s] + sources[s].elements);
      for (int64_t first = std::max(begin * kBlock, begins[s]); first < last; first += kBlock) {
        const int64_t count = std::min(kBlock, last - first);
        absl::Status read = ReadBlock(sources[s], first - begins[s], count, values + first);
        if (!read.ok()) return error.Set(std::move(read));
        if (!AreFinite(values + first, count)) finite = false;
      }
    }
  });
  LOCKSTEP_RETURN_IF_ERROR(error.Get());
  if (finite) return absl::OkStatus();
  const int64_t bad =
      std::find_if_not(values, values + total, [](float v) { return AreFinite(&v, 1); }) - values;
  const size_t in = std::upper_bound(begins.begin(), begins.end(), bad) - begins.begin() - 1;
  return absl::DataLossError(absl::StrCat(sources[in].file->path(), ": ", sources[in].name,
                                          ": element ", bad - begins[in], " is not finite (",
                                          values[bad], ")"));
}

}  // namespace lockstep
