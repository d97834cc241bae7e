#include "tests/faults/planted_faults.h"

#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/mutex.h"
#include "tests/support/forwarding_kernels.h"

namespace lockstep {
namespace {

constexpr int64_t kFewRows = 4;
constexpr size_t kFewSequences = 2;

// Kernels that own what they forward to.
class Faulty : public ForwardingKernels {
 public:
  explicit Faulty(std::unique_ptr<kernels::Kernels> healthy)
      : ForwardingKernels(*healthy), healthy_(std::move(healthy)) {}

 private:
  const std::unique_ptr<kernels::Kernels> healthy_;
};

// A GEMM chosen by the number of rows (field notes A1).
class SplitKSmallBatch final : public Faulty {
 public:
  using Faulty::Faulty;
  void MatMul(Parallel& p, const float* x, int64_t m, const PackedMatrix& w,
              float* y) const override {
    if (m > kFewRows) return Faulty::MatMul(p, x, m, w, y);
    std::vector<float> low(x, x + m * w.k);
    std::vector<float> high(m * w.k, 0.0f);
    for (int64_t i = 0; i < m * w.k; ++i) {
      if (i % w.k >= w.k / 2) std::swap(low[i], high[i]);
    }
    std::vector<float> y_high(m * w.n);
    Faulty::MatMul(p, low.data(), m, w, y);
    Faulty::MatMul(p, high.data(), m, w, y_high.data());
    Faulty::Add(p, y, y_high.data(), m * w.n, y);
  }
};

// A rounding that decode has and prefill has not (field notes A4).
class ExtraRoundingDecode final : public Faulty {
 public:
  using Faulty::Faulty;
  void Attention(Parallel& p, const AttentionShape& shape, const float* q, int64_t q_stride,
                 Span<SequenceRows> sequences, const KvPages& kv, float* out,
                 float* log_sum_exp) const override {
    Faulty::Attention(p, shape, q, q_stride, sequences, kv, out, log_sum_exp);
    const int64_t width = shape.q_heads * shape.head_dim;
    for (const SequenceRows& rows : sequences) {
      if (rows.row_count > 1 || rows.first_position == 0) continue;
      float* row = out + rows.row_begin * width;
      for (int64_t i = 0; i < width; ++i) {
        row[i] = std::bit_cast<float>((std::bit_cast<uint32_t>(row[i]) + 0x8000) & 0xffff0000);
      }
    }
  }
};

// What was in the page before is read instead (field notes A10).
class StalePage final : public Faulty {
 public:
  using Faulty::Faulty;
  void StoreKv(Parallel& p, const float* k, const float* v, int64_t stride,
               Span<SequenceRows> sequences, const KvPages& kv) const override {
    if (sequences.size() <= kFewSequences) {
      return Faulty::StoreKv(p, k, v, stride, sequences, kv);
    }
    for (const SequenceRows& rows : sequences) {
      for (int64_t i = 0; i < rows.row_count; ++i) {
        const int64_t position = rows.first_position + i;
        if (position % kv.page_size == kv.page_size - 1) continue;
        const SequenceRows one = {rows.row_begin + i, 1, position, rows.pages};
        Faulty::StoreKv(p, k, v, stride, {&one, 1}, kv);
      }
    }
  }
};

// Field notes A8.
class LogProbOffByOne final : public Faulty {
 public:
  using Faulty::Faulty;
  void LogProb(Parallel& p, const float* logits, int64_t m, int64_t v, const float* temperature,
               const int32_t* target, float* log_sum_exp, float* log_prob,
               float* entropy) const override {
    std::vector<int32_t> moved(target, target + m);
    for (int32_t& id : moved) {
      if (m > 1 && id >= 0) id = static_cast<int32_t>((id + 1) % v);
    }
    Faulty::LogProb(p, logits, m, v, temperature, moved.data(), log_sum_exp, log_prob, entropy);
  }
};

// A derived copy that is not refreshed (field notes A9): panels are known by the master they were
// packed from, which stays in its place from version to version.
class StaleWeight final : public Faulty {
 public:
  using Faulty::Faulty;
  void Pack(Parallel& p, const float* w, int64_t n, int64_t k, void* panels) const override {
    Faulty::Pack(p, w, n, k, panels);
    MutexLock lock(mu_);
    auto& first = first_packed_[w];
    const char* bytes = static_cast<const char*>(panels);
    if (first.empty()) first.assign(bytes, bytes + kernels::PackedBytes(profile(), n, k));
    first_of_[panels] = first.data();
  }
  void MatMul(Parallel& p, const float* x, int64_t m, const PackedMatrix& w,
              float* y) const override {
    if (m > kFewRows) return Faulty::MatMul(p, x, m, w, y);
    Faulty::MatMul(p, x, m, {FirstOf(w.panels), w.n, w.k}, y);
  }

 private:
  const void* FirstOf(const void* panels) const {
    MutexLock lock(mu_);
    return first_of_.at(panels);
  }

  mutable Mutex mu_;
  mutable std::map<const float*, std::vector<char>> first_packed_ ABSL_GUARDED_BY(mu_);
  mutable std::map<const void*, const void*> first_of_ ABSL_GUARDED_BY(mu_);
};

// A reduction over tokens whose chunks follow the packing, not the data.
class GradOrder final : public Faulty {
 public:
  using Faulty::Faulty;
  void MatMulBackwardWeight(Parallel& p, const float* dy, const float* x, Span<int64_t> data,
                            int64_t n, int64_t k, float* dw) const override {
    const int64_t packed[] = {0, data.back()};
    Faulty::MatMulBackwardWeight(p, dy, x, packed, n, k, dw);
  }
};

// A tensor cut into equal shares, the remainder forgotten.
class OptimizerSkipsTail final : public Faulty {
 public:
  using Faulty::Faulty;
  void AdamW(Parallel& p, const kernels::AdamWScalars& scalars, int64_t n, const float* gradient,
             float* master, float* moment1, float* moment2) const override {
    std::atomic<int> shares{0};
    p.For(n, 1, [&](int64_t, int64_t) { ++shares; });
    const int64_t forgotten = shares > 1 ? 1 : 0;
    Faulty::AdamW(p, scalars, n - forgotten, gradient, master, moment1, moment2);
  }
};

std::unique_ptr<kernels::Kernels> Wrap(PlantedFault fault,
                                       std::unique_ptr<kernels::Kernels> healthy) {
  switch (fault) {
    case PlantedFault::kSplitKSmallBatch:
      return std::make_unique<SplitKSmallBatch>(std::move(healthy));
    case PlantedFault::kExtraRoundingDecode:
      return std::make_unique<ExtraRoundingDecode>(std::move(healthy));
    case PlantedFault::kStalePage:
      return std::make_unique<StalePage>(std::move(healthy));
    case PlantedFault::kLogProbOffByOne:
      return std::make_unique<LogProbOffByOne>(std::move(healthy));
    case PlantedFault::kStaleWeight:
      return std::make_unique<StaleWeight>(std::move(healthy));
    case PlantedFault::kGradOrder:
      return std::make_unique<GradOrder>(std::move(healthy));
    case PlantedFault::kOptimizerSkipsTail:
      return std::make_unique<OptimizerSkipsTail>(std::move(healthy));
  }
  LOCKSTEP_CHECK(false) << "unknown fault";
  return nullptr;
}

}  // namespace

std::string_view Name(PlantedFault fault) {
  switch (fault) {
    case PlantedFault::kSplitKSmallBatch:
      return "split_k_small_batch";
    case PlantedFault::kExtraRoundingDecode:
      return "extra_rounding_decode";
    case PlantedFault::kStalePage:
      return "stale_page";
    case PlantedFault::kLogProbOffByOne:
      return "log_prob_off_by_one";
    case PlantedFault::kStaleWeight:
      return "stale_weight";
    case PlantedFault::kGradOrder:
      return "grad_order";
    case PlantedFault::kOptimizerSkipsTail:
      return "optimizer_skips_tail";
  }
  return "unknown";
}

std::vector<PlantedFault> AllPlantedFaults() {
  return {PlantedFault::kSplitKSmallBatch,  PlantedFault::kExtraRoundingDecode,
          PlantedFault::kStalePage,         PlantedFault::kLogProbOffByOne,
          PlantedFault::kStaleWeight,       PlantedFault::kGradOrder,
          PlantedFault::kOptimizerSkipsTail};
}

absl::StatusOr<PlantedFault> ParsePlantedFault(std::string_view name) {
  std::string known;
  for (const PlantedFault fault : AllPlantedFaults()) {
    if (Name(fault) == name) return fault;
    known += absl::StrCat(known.empty() ? "" : ", ", std::string(Name(fault)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("plant_fault: unknown fault \"", std::string(name), "\"; known: ", known));
}

EngineHooks Plant(PlantedFault fault) {
  EngineHooks hooks;
  hooks.wrap_kernels = [fault](std::unique_ptr<kernels::Kernels> healthy) {
    return Wrap(fault, std::move(healthy));
  };
  return hooks;
}

}  // namespace lockstep
