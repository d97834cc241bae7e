#ifndef LOCKSTEP_KERNELS_OP_PROBE_DATA_H_
#define LOCKSTEP_KERNELS_OP_PROBE_DATA_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/digest_hash.h"
#include "kernels/op_probe.h"

namespace lockstep::kernels::probe {

// Inputs and outputs of the probes.

using Floats = std::vector<float>;

// A stream of test data.
class Generator {
 public:
  explicit Generator(ProbeSeed seed) : state_(MixMurmur3(seed.seed)), data_(seed.data) {}

  uint64_t Next() { return MixStafford13(state_ += kPlaceStep); }
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(limit));
  }

  // In [-scale, scale], never 0.
  float Plain(float scale = 1.0f) { return Plain(Next(), scale); }
  // One number makes each element: half of a self-test's time was once spent here.
  Floats Vector(int64_t n, float scale = 1.0f) {
    const bool edges = data_ == ProbeData::kEdges;
    Floats values(n);
    for (float& value : values) {
      const uint64_t word = Next();
      value = edges && (word & 7) == 0 ? Edge(word >> 3) : Plain(word, scale);
    }
    return values;
  }
  // As Vector, with a NaN in row 1 and an infinity in the row before the last.
  Floats Rows(int64_t m, int64_t width, float scale = 1.0f) {
    Floats values = Vector(m * width, scale);
    if (data_ == ProbeData::kEdges && m >= 4 && width > 0) {
      values[width + Below(width)] = std::numeric_limits<float>::quiet_NaN();
      values[(m - 2) * width + Below(width)] = std::numeric_limits<float>::infinity();
    }
    return values;
  }
  Floats Positive(int64_t n) {
    Floats values(n);
    for (float& value : values) value = 0.5f + static_cast<float>(Next() >> 40) * 0x1p-24f;
    return values;
  }
  std::vector<int32_t> Tokens(int64_t count, int64_t limit) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = static_cast<int32_t>(Below(limit));
    return tokens;
  }
  float Temperature() {
    constexpr float kTemperatures[] = {1.0f, 0.7f, 1.0f, 1.5f, 0.3f};
    return kTemperatures[Below(std::size(kTemperatures))];
  }

 private:
  static float Plain(uint64_t word, float scale) {
    const float magnitude = static_cast<float>(1 + (word >> 41)) * 0x1p-23f * scale;
    const uint32_t sign = static_cast<uint32_t>(word & 8) << 28;  // not a branch: it is random
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  static float Edge(uint64_t word) {
    constexpr float kEdges[] = {0.0f,      -0.0f,    0x1p-149f, -0x1.8p-130f, 0x1p-126f,
                                -0x1p-70f, 0x1p-75f, 0x1p60f,   -0x1p66f,     0x1.fffffep-127f};
    return kEdges[word % std::size(kEdges)];
  }

  uint64_t state_;
  const ProbeData data_;
};

// Memory of weights, K or V in a profile's elements: exact size, aligned to 64 bytes, as
// PackedMatrix promises.
class Elements {
 public:
  Elements(Profile profile, int64_t count)
      : profile_(profile), count_(count), data_(Allocate(count * ElementBytes(profile))) {}

  void* data() { return data_.get(); }
  int64_t count() const { return count_; }

  void Set(int64_t index, float value) {
    if (profile_ == Profile::kFp32) {
      std::memcpy(data_.get() + 4 * index, &value, 4);
    } else {
      const uint16_t half = NarrowToBf16(value);
      std::memcpy(data_.get() + 2 * index, &half, 2);
    }
  }
  void Fill(float value) {
    for (int64_t i = 0; i < count_; ++i) Set(i, value);
  }
  // The bits of every element.
  OpOutput Output(std::string_view name) const {
    OpOutput output{.name = name, .bits = std::vector<uint32_t>(count_)};
    const int64_t bytes = ElementBytes(profile_);
    for (int64_t i = 0; i < count_; ++i) {
      std::memcpy(&output.bits[i], data_.get() + bytes * i, bytes);
    }
    return output;
  }

 private:
  struct Free {
    void operator()(char* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  static char* Allocate(int64_t bytes) {
    return static_cast<char*>(::operator new[](bytes, std::align_val_t{64}));
  }

  const Profile profile_;
  const int64_t count_;
  std::unique_ptr<char[], Free> data_;
};

// Room for the packed form of w[n, k].
inline Elements Panels(Profile profile, int64_t n, int64_t k) {
  return Elements(profile, PackedBytes(profile, n, k) / ElementBytes(profile));
}
// The packed form of w, independent of any backend's Pack.
inline Elements PanelsOf(Profile profile, const Floats& w, int64_t n, int64_t k) {
  Elements panels = Panels(profile, n, k);
  panels.Fill(0.0f);
  for (int64_t row = 0; row < n; ++row) {
    const int64_t panel = row / kPanelWidth;
    const int64_t lane = row % kPanelWidth;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t index =
          profile == Profile::kFp32
              ? (panel * k + i) * kPanelWidth + lane
              : ((panel * PanelRows(profile, k) + i / 2) * kPanelWidth + lane) * 2 + i % 2;
      panels.Set(index, w[row * k + i]);
    }
  }
  return panels;
}

inline OpOutput Output(std::string_view name, const float* values, int64_t n) {
  OpOutput output{.name = name, .bits = std::vector<uint32_t>(n)};
  for (int64_t i = 0; i < n; ++i) output.bits[i] = std::bit_cast<uint32_t>(values[i]);
  return output;
}
inline OpOutput Output(std::string_view name, const Floats& values) {
  return Output(name, values.data(), static_cast<int64_t>(values.size()));
}

inline std::vector<int64_t> DatumBegins(const TokenCase& c) {
  std::vector<int64_t> begins = {0};
  for (int64_t length : c.datum_lengths) begins.push_back(begins.back() + length);
  return begins;
}

}  // namespace lockstep::kernels::probe

#endif  // LOCKSTEP_KERNELS_OP_PROBE_DATA_H_
