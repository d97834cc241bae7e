#ifndef LOCKSTEP_KERNELS_CPU_CPU_KERNELS_H_
#define LOCKSTEP_KERNELS_CPU_CPU_KERNELS_H_

#include <cstdint>
#include <string_view>

#include "kernels/kernels.h"

namespace lockstep::kernels::cpu {

// The kernels of a CPU instruction set and a profile, written once over a vector type V (simd_*.h)
// and an Element (element.h). The files of this folder hold the arithmetic of one row, block or
// panel each; this class cuts operations into such pieces and hands them to threads.
//
// Lifetime and thread safety: stateless; safe to share.
template <class V, class Element>
class CpuKernels final : public Kernels {
 public:
  // REQUIRES: `name` outlives this object.
  explicit CpuKernels(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }
  Profile profile() const override { return Element::kProfile; }

  void Pack(Parallel& parallel, const float* w, int64_t n, int64_t k, void* panels) const override;
  void MatMul(Parallel& parallel, const float* x, int64_t m, const PackedMatrix& w,
              float* y) const override;
  void MatMulBackwardInput(Parallel& parallel, const float* dy, int64_t m, const PackedMatrix& w,
                           float* dx) const override;
  void MatMulBackwardWeight(Parallel& parallel, const float* dy, const float* x,
                            absl::Span<const int64_t> datum_begins, int64_t n, int64_t k,
                            float* dw) const override;

  void Embedding(Parallel& parallel, absl::Span<const int32_t> token_ids, const PackedMatrix& table,
                 float* y) const override;
  void EmbeddingBackward(Parallel& parallel, absl::Span<const int32_t> token_ids, const float* dy,
                         int64_t k, float* dtable) const override;

  void RmsNorm(Parallel& parallel, const float* x, const float* weight, int64_t m, int64_t h,
               float epsilon, float* y, float* inverse_rms) const override;
  void RmsNormBackward(Parallel& parallel, const float* x, const float* weight,
                       const float* inverse_rms, const float* dy,
                       absl::Span<const int64_t> datum_begins, int64_t h, float* dx,
                       float* dweight) const override;

  void HeadNorm(Parallel& parallel, float* x, int64_t stride, const float* weight, int64_t m,
                int64_t heads, int64_t head_dim, float epsilon, float* before,
                float* inverse_rms) const override;
  void HeadNormBackward(Parallel& parallel, const float* before, const float* weight,
                        const float* inverse_rms, absl::Span<const int64_t> datum_begins,
                        int64_t heads, int64_t head_dim, float* dx, int64_t stride,
                        float* dweight) const override;

  void AddBias(Parallel& parallel, const float* bias, int64_t m, int64_t n,
               float* y) const override;
  void AddBiasBackward(Parallel& parallel, const float* dy, absl::Span<const int64_t> datum_begins,
                       int64_t n, float* dbias) const override;

  void Add(Parallel& parallel, const float* a, const float* b, int64_t n, float* y) const override;

  void Rope(Parallel& parallel, float* x, int64_t stride, int64_t heads, int64_t head_dim,
            absl::Span<const int32_t> positions, const float* cosine,
            const float* sine) const override;
  void RopeBackward(Parallel& parallel, float* dx, int64_t stride, int64_t heads, int64_t head_dim,
                    absl::Span<const int32_t> positions, const float* cosine,
                    const float* sine) const override;

  void StoreKv(Parallel& parallel, const float* k, const float* v, int64_t stride,
               absl::Span<const SequenceRows> sequences, const KvPages& kv) const override;
  void Attention(Parallel& parallel, const AttentionShape& shape, const float* q, int64_t q_stride,
                 absl::Span<const SequenceRows> sequences, const KvPages& kv, float* out,
                 float* log_sum_exp) const override;
  void AttentionBackward(Parallel& parallel, const AttentionShape& shape, const float* q,
                         int64_t q_stride, absl::Span<const SequenceRows> sequences,
                         const KvPages& kv, const float* out, const float* log_sum_exp,
                         const float* dout, float* dqkv, int64_t dqkv_stride) const override;

  void SiluMul(Parallel& parallel, const float* gate_up, int64_t m, int64_t f,
               float* y) const override;
  void SiluMulBackward(Parallel& parallel, const float* gate_up, const float* dy, int64_t m,
                       int64_t f, float* dgate_up) const override;

  void LogProb(Parallel& parallel, const float* logits, int64_t m, int64_t v,
               const float* temperature, const int32_t* target, float* log_sum_exp, float* log_prob,
               float* entropy) const override;
  void LogProbBackward(Parallel& parallel, float* logits, int64_t m, int64_t v,
                       const float* temperature, const int32_t* target, const float* log_sum_exp,
                       const float* coefficient) const override;
  void Probabilities(const float* logits, int64_t v, float temperature, float log_sum_exp,
                     float* p) const override;

  double SumOfSquares(Parallel& parallel, const float* g, int64_t n) const override;
  void AdamW(Parallel& parallel, const AdamWScalars& scalars, int64_t n, const float* gradient,
             float* master, float* moment1, float* moment2) const override;
  Digest128 Digest(Parallel& parallel, const float* x, int64_t n,
                   uint64_t first_index) const override;

  void Exp(const float* x, int64_t n, float* y) const override;
  void Log(const float* x, int64_t n, float* y) const override;

 private:
  const std::string_view name_;
};

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_CPU_KERNELS_H_
