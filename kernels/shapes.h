#ifndef LOCKSTEP_KERNELS_SHAPES_H_
#define LOCKSTEP_KERNELS_SHAPES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace lockstep::kernels {

// Every constant that shapes a reduction. They are part of the numerics id: none depends on batch,
// threads, cores or instruction set. docs/numerics.md says how each one enters.
inline constexpr int64_t kReduceChunk = 512;     // k positions in one FMA chain of a product
inline constexpr int64_t kTokenChunk = 128;      // positions of a datum in one chain of dW
inline constexpr int64_t kRowBlock = 1024;       // elements in one block of a row reduction
inline constexpr int64_t kRowChains = 64;        // strided chains in one such block
inline constexpr int64_t kAttentionBlock = 128;  // keys (or queries, in dK and dV) in one block
inline constexpr int64_t kGradientLeaf = 4096;   // elements in one fp32 leaf of the gradient norm

// Outputs side by side in one panel of a packed matrix. A layout, not an order.
inline constexpr int64_t kPanelWidth = 32;

// In which precision the operands of matrix products are, and K and V; everything else is fp32.
// Fixed when kernels are made, and part of the numerics id.
enum class Profile {
  kFp32,
  // Operands are rounded to bf16 as they enter a product, K and V as they are stored. A chain takes
  // its positions in pairs (2i, 2i + 1), the odd one first.
  kBf16,
};

// A weight matrix w[N, K] (N outputs, K reduced), packed for lanes across outputs; rows past N are
// zero. Borrowed; aligned to 64 bytes.
//   fp32: float panels[ceil(N / 32)][K][32]
//   bf16: uint16_t panels[ceil(N / 32)][ceil(K / 2)][32][2], upper halves of fp32, zero past K
struct PackedMatrix {
  const void* panels = nullptr;
  int64_t n = 0;
  int64_t k = 0;
};

// Rows of a panel that hold `k` reduced positions: 32 lanes of 32 bits each, in bf16 two positions.
constexpr int64_t PanelRows(Profile profile, int64_t k) {
  return profile == Profile::kFp32 ? k : (k + 1) / 2;
}

// Bytes of the packed form of w[n, k].
constexpr int64_t PackedBytes(Profile profile, int64_t n, int64_t k) {
  return (n + kPanelWidth - 1) / kPanelWidth * PanelRows(profile, k) * kPanelWidth * 4;
}

// Bytes of one element of packed weights, of K and of V.
constexpr int64_t ElementBytes(Profile profile) { return profile == Profile::kFp32 ? 4 : 2; }

// The KV pages of one layer, borrowed. A page holds `page_size` consecutive positions of one
// sequence: first K as [kv_heads][head_dim][page_size] (lanes across keys), then V as
// [kv_heads][page_size][head_dim] (lanes across the head dimension). Page p begins at
// data + p * page_stride; pages start zeroed. page_size is a multiple of 8 that divides 128.
// Elements are floats, in profile bf16 their upper halves (uint16_t).
struct KvPages {
  void* data = nullptr;
  int64_t page_stride = 0;  // elements from one page to the next
  int64_t page_size = 0;    // positions
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
};

// Rows [row_begin, row_begin + row_count) of a batch are consecutive positions of one sequence,
// from `first_position`. Position p lies in page pages[p / page_size].
struct SequenceRows {
  int64_t row_begin = 0;
  int64_t row_count = 0;
  int64_t first_position = 0;
  absl::Span<const int32_t> pages;
};

// Heads of an attention layer. Query head h reads KV head h / (q_heads / kv_heads).
struct AttentionShape {
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;  // multiple of 8
  float scale = 0;       // multiplies a finished q·k chain
};

// One AdamW update. The bias corrections and the decay factor are computed once by the driver in
// double precision (kernels/host_math.h) and rounded here, so every stage uses the same bits.
struct AdamWScalars {
  float gradient_scale = 1;  // 1 / loss denominator times the clip coefficient, one product
  float learning_rate = 0;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float inverse_correction1 = 0;  // 1 / (1 - beta1^t)
  float inverse_correction2 = 0;  // 1 / (1 - beta2^t)
  float epsilon = 0;
  float decay = 0;  // learning_rate * weight_decay
};

// An order-free sum of mixed bits: 128 bits, addition modulo 2^128.
struct Digest128 {
  uint64_t low = 0;
  uint64_t high = 0;

  Digest128& operator+=(const Digest128& other) {
    low += other.low;
    high += other.high + (low < other.low ? 1 : 0);
    return *this;
  }
  bool operator==(const Digest128&) const = default;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SHAPES_H_
