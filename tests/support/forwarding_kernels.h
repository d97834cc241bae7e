// Kernels that pass every call on to others. A planted fault overrides one operation and is
// otherwise the real thing. Borrows the other; stateless.
#ifndef LOCKSTEP_TESTS_SUPPORT_FORWARDING_KERNELS_H_
#define LOCKSTEP_TESTS_SUPPORT_FORWARDING_KERNELS_H_

#include <cstdint>
#include <string_view>

#include "kernels/kernels.h"

namespace lockstep {

class ForwardingKernels : public kernels::Kernels {
 public:
  using Parallel = kernels::Parallel;
  using PackedMatrix = kernels::PackedMatrix;
  using SequenceRows = kernels::SequenceRows;
  using KvPages = kernels::KvPages;
  using AttentionShape = kernels::AttentionShape;
  template <typename T>
  using Span = absl::Span<const T>;

  // REQUIRES: `to` outlives this object.
  explicit ForwardingKernels(const kernels::Kernels& to) : to_(to) {}

  std::string_view name() const override { return to_.name(); }
  kernels::Profile profile() const override { return to_.profile(); }

  void Pack(Parallel& p, const float* w, int64_t n, int64_t k, void* panels) const override {
    to_.Pack(p, w, n, k, panels);
  }
  void MatMul(Parallel& p, const float* x, int64_t m, const PackedMatrix& w,
              float* y) const override {
    to_.MatMul(p, x, m, w, y);
  }
  void MatMulBackwardInput(Parallel& p, const float* dy, int64_t m, const PackedMatrix& w,
                           float* dx) const override {
    to_.MatMulBackwardInput(p, dy, m, w, dx);
  }
  void MatMulBackwardWeight(Parallel& p, const float* dy, const float* x, Span<int64_t> data,
                            int64_t n, int64_t k, float* dw) const override {
    to_.MatMulBackwardWeight(p, dy, x, data, n, k, dw);
  }
  void Embedding(Parallel& p, Span<int32_t> ids, const PackedMatrix& table,
                 float* y) const override {
    to_.Embedding(p, ids, table, y);
  }
  void EmbeddingBackward(Parallel& p, Span<int32_t> ids, const float* dy, int64_t k,
                         float* dtable) const override {
    to_.EmbeddingBackward(p, ids, dy, k, dtable);
  }
  void RmsNorm(Parallel& p, const float* x, const float* weight, int64_t m, int64_t h,
               float epsilon, float* y, float* inverse_rms) const override {
    to_.RmsNorm(p, x, weight, m, h, epsilon, y, inverse_rms);
  }
  void RmsNormBackward(Parallel& p, const float* x, const float* weight, const float* inverse_rms,
                       const float* dy, Span<int64_t> data, int64_t h, float* dx,
                       float* dweight) const override {
    to_.RmsNormBackward(p, x, weight, inverse_rms, dy, data, h, dx, dweight);
  }
  void HeadNorm(Parallel& p, float* x, int64_t stride, const float* weight, int64_t m,
                int64_t heads, int64_t head_dim, float epsilon, float* before,
                float* inverse_rms) const override {
    to_.HeadNorm(p, x, stride, weight, m, heads, head_dim, epsilon, before, inverse_rms);
  }
  void HeadNormBackward(Parallel& p, const float* before, const float* weight,
                        const float* inverse_rms, Span<int64_t> data, int64_t heads,
                        int64_t head_dim, float* dx, int64_t stride,
                        float* dweight) const override {
    to_.HeadNormBackward(p, before, weight, inverse_rms, data, heads, head_dim, dx, stride,
                         dweight);
  }
  void AddBias(Parallel& p, const float* bias, int64_t m, int64_t n, float* y) const override {
    to_.AddBias(p, bias, m, n, y);
  }
  void AddBiasBackward(Parallel& p, const float* dy, Span<int64_t> data, int64_t n,
                       float* dbias) const override {
    to_.AddBiasBackward(p, dy, data, n, dbias);
  }
  void Add(Parallel& p, const float* a, const float* b, int64_t n, float* y) const override {
    to_.Add(p, a, b, n, y);
  }
  void Rope(Parallel& p, float* x, int64_t stride, int64_t heads, int64_t head_dim,
            Span<int32_t> positions, const float* cosine, const float* sine) const override {
    to_.Rope(p, x, stride, heads, head_dim, positions, cosine, sine);
  }
  void RopeBackward(Parallel& p, float* dx, int64_t stride, int64_t heads, int64_t head_dim,
                    Span<int32_t> positions, const float* cosine,
                    const float* sine) const override {
    to_.RopeBackward(p, dx, stride, heads, head_dim, positions, cosine, sine);
  }
  void StoreKv(Parallel& p, const float* k, const float* v, int64_t stride,
               Span<SequenceRows> sequences, const KvPages& kv) const override {
    to_.StoreKv(p, k, v, stride, sequences, kv);
  }
  void Attention(Parallel& p, const AttentionShape& shape, const float* q, int64_t q_stride,
                 Span<SequenceRows> sequences, const KvPages& kv, float* out,
                 float* log_sum_exp) const override {
    to_.Attention(p, shape, q, q_stride, sequences, kv, out, log_sum_exp);
  }
  void AttentionBackward(Parallel& p, const AttentionShape& shape, const float* q, int64_t q_stride,
                         Span<SequenceRows> sequences, const KvPages& kv, const float* out,
                         const float* log_sum_exp, const float* dout, float* dqkv,
                         int64_t dqkv_stride) const override {
    to_.AttentionBackward(p, shape, q, q_stride, sequences, kv, out, log_sum_exp, dout, dqkv,
                          dqkv_stride);
  }
  void SiluMul(Parallel& p, const float* gate_up, int64_t m, int64_t f, float* y) const override {
    to_.SiluMul(p, gate_up, m, f, y);
  }
  void SiluMulBackward(Parallel& p, const float* gate_up, const float* dy, int64_t m, int64_t f,
                       float* dgate_up) const override {
    to_.SiluMulBackward(p, gate_up, dy, m, f, dgate_up);
  }
  void LogProb(Parallel& p, const float* logits, int64_t m, int64_t v, const float* temperature,
               const int32_t* target, float* log_sum_exp, float* log_prob,
               float* entropy) const override {
    to_.LogProb(p, logits, m, v, temperature, target, log_sum_exp, log_prob, entropy);
  }
  void LogProbBackward(Parallel& p, float* logits, int64_t m, int64_t v, const float* temperature,
                       const int32_t* target, const float* log_sum_exp,
                       const float* coefficient) const override {
    to_.LogProbBackward(p, logits, m, v, temperature, target, log_sum_exp, coefficient);
  }
  void Probabilities(const float* logits, int64_t v, float temperature, float log_sum_exp,
                     float* p) const override {
    to_.Probabilities(logits, v, temperature, log_sum_exp, p);
  }
  double SumOfSquares(Parallel& p, const float* g, int64_t n) const override {
    return to_.SumOfSquares(p, g, n);
  }
  void AdamW(Parallel& p, const kernels::AdamWScalars& scalars, int64_t n, const float* gradient,
             float* master, float* moment1, float* moment2) const override {
    to_.AdamW(p, scalars, n, gradient, master, moment1, moment2);
  }
  kernels::Digest128 Digest(Parallel& p, const float* x, int64_t n,
                            uint64_t first_index) const override {
    return to_.Digest(p, x, n, first_index);
  }
  void Exp(const float* x, int64_t n, float* y) const override { to_.Exp(x, n, y); }
  void Log(const float* x, int64_t n, float* y) const override { to_.Log(x, n, y); }

 private:
  const kernels::Kernels& to_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FORWARDING_KERNELS_H_
