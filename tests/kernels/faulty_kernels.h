#ifndef LOCKSTEP_TESTS_KERNELS_FAULTY_KERNELS_H_
#define LOCKSTEP_TESTS_KERNELS_FAULTY_KERNELS_H_

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/kernels.h"

namespace lockstep::kernels {

// Kernels with one planted fault: the operation named `faulty_op` gets the last bit of one output
// element wrong. The negative control of every comparison between backends.
//
// Borrows `inner`. Thread safety: as Kernels.
class FaultyKernels final : public Kernels {
 public:
  FaultyKernels(const Kernels& inner, std::string_view faulty_op)
      : inner_(inner), faulty_op_(faulty_op) {}

  std::string_view name() const override { return "faulty"; }
  Profile profile() const override { return inner_.profile(); }

  void Pack(Parallel& parallel, const float* w, int64_t n, int64_t k, void* panels) const override {
    inner_.Pack(parallel, w, n, k, panels);
    SpoilElement("Pack", panels, PackedBytes(profile(), n, k) / ElementBytes(profile()));
  }
  void MatMul(Parallel& parallel, const float* x, int64_t m, const PackedMatrix& w,
              float* y) const override {
    inner_.MatMul(parallel, x, m, w, y);
    Spoil("MatMul", y, m * w.n);
  }
  void MatMulBackwardInput(Parallel& parallel, const float* dy, int64_t m, const PackedMatrix& w,
                           float* dx) const override {
    inner_.MatMulBackwardInput(parallel, dy, m, w, dx);
    Spoil("MatMulBackwardInput", dx, m * w.k);
  }
  void MatMulBackwardWeight(Parallel& parallel, const float* dy, const float* x,
                            absl::Span<const int64_t> datum_begins, int64_t n, int64_t k,
                            float* dw) const override {
    inner_.MatMulBackwardWeight(parallel, dy, x, datum_begins, n, k, dw);
    Spoil("MatMulBackwardWeight", dw, n * k);
  }
  void Embedding(Parallel& parallel, absl::Span<const int32_t> token_ids, const PackedMatrix& table,
                 float* y) const override {
    inner_.Embedding(parallel, token_ids, table, y);
    Spoil("Embedding", y, static_cast<int64_t>(token_ids.size()) * table.k);
  }
  void EmbeddingBackward(Parallel& parallel, absl::Span<const int32_t> token_ids, const float* dy,
                         int64_t k, float* dtable) const override {
    inner_.EmbeddingBackward(parallel, token_ids, dy, k, dtable);
    Spoil("EmbeddingBackward", dtable, (token_ids.back() + 1) * k);
  }
  void RmsNorm(Parallel& parallel, const float* x, const float* weight, int64_t m, int64_t h,
               float epsilon, float* y, float* inverse_rms) const override {
    inner_.RmsNorm(parallel, x, weight, m, h, epsilon, y, inverse_rms);
    Spoil("RmsNorm", y, m * h);
  }
  void RmsNormBackward(Parallel& parallel, const float* x, const float* weight,
                       const float* inverse_rms, const float* dy,
                       absl::Span<const int64_t> datum_begins, int64_t h, float* dx,
                       float* dweight) const override {
    inner_.RmsNormBackward(parallel, x, weight, inverse_rms, dy, datum_begins, h, dx, dweight);
    Spoil("RmsNormBackward", dx, datum_begins.back() * h);
  }
  void HeadNorm(Parallel& parallel, float* x, int64_t stride, const float* weight, int64_t m,
                int64_t heads, int64_t head_dim, float epsilon, float* before,
                float* inverse_rms) const override {
    inner_.HeadNorm(parallel, x, stride, weight, m, heads, head_dim, epsilon, before, inverse_rms);
    Spoil("HeadNorm", x, heads * head_dim);
  }
  void HeadNormBackward(Parallel& parallel, const float* before, const float* weight,
                        const float* inverse_rms, absl::Span<const int64_t> datum_begins,
                        int64_t heads, int64_t head_dim, float* dx, int64_t stride,
                        float* dweight) const override {
    inner_.HeadNormBackward(parallel, before, weight, inverse_rms, datum_begins, heads, head_dim,
                            dx, stride, dweight);
    Spoil("HeadNormBackward", dweight, head_dim);
  }
  void AddBias(Parallel& parallel, const float* bias, int64_t m, int64_t n,
               float* y) const override {
    inner_.AddBias(parallel, bias, m, n, y);
    Spoil("AddBias", y, m * n);
  }
  void AddBiasBackward(Parallel& parallel, const float* dy, absl::Span<const int64_t> datum_begins,
                       int64_t n, float* dbias) const override {
    inner_.AddBiasBackward(parallel, dy, datum_begins, n, dbias);
    Spoil("AddBiasBackward", dbias, n);
  }
  void Add(Parallel& parallel, const float* a, const float* b, int64_t n, float* y) const override {
    inner_.Add(parallel, a, b, n, y);
    Spoil("Add", y, n);
  }
  void Rope(Parallel& parallel, float* x, int64_t stride, int64_t heads, int64_t head_dim,
            absl::Span<const int32_t> positions, const float* cosine,
            const float* sine) const override {
    inner_.Rope(parallel, x, stride, heads, head_dim, positions, cosine, sine);
    Spoil("Rope", x, heads * head_dim);
  }
  void RopeBackward(Parallel& parallel, float* dx, int64_t stride, int64_t heads, int64_t head_dim,
                    absl::Span<const int32_t> positions, const float* cosine,
                    const float* sine) const override {
    inner_.RopeBackward(parallel, dx, stride, heads, head_dim, positions, cosine, sine);
    Spoil("RopeBackward", dx, heads * head_dim);
  }
  void StoreKv(Parallel& parallel, const float* k, const float* v, int64_t stride,
               absl::Span<const SequenceRows> sequences, const KvPages& kv) const override {
    inner_.StoreKv(parallel, k, v, stride, sequences, kv);
    const SequenceRows& first = sequences.front();
    const int32_t page = first.pages[first.first_position / kv.page_size];
    SpoilElement("StoreKv", kv.data,
                 page * kv.page_stride + first.first_position % kv.page_size + 1);
  }
  void Attention(Parallel& parallel, const AttentionShape& shape, const float* q, int64_t q_stride,
                 absl::Span<const SequenceRows> sequences, const KvPages& kv, float* out,
                 float* log_sum_exp) const override {
    inner_.Attention(parallel, shape, q, q_stride, sequences, kv, out, log_sum_exp);
    const SequenceRows& last = sequences.back();
    Spoil("Attention", out, (last.row_begin + last.row_count) * shape.q_heads * shape.head_dim);
  }
  void AttentionBackward(Parallel& parallel, const AttentionShape& shape, const float* q,
                         int64_t q_stride, absl::Span<const SequenceRows> sequences,
                         const KvPages& kv, const float* out, const float* log_sum_exp,
                         const float* dout, float* dqkv, int64_t dqkv_stride) const override {
    inner_.AttentionBackward(parallel, shape, q, q_stride, sequences, kv, out, log_sum_exp, dout,
                             dqkv, dqkv_stride);
    Spoil("AttentionBackward", dqkv, (shape.q_heads + 2 * shape.kv_heads) * shape.head_dim);
  }
  void SiluMul(Parallel& parallel, const float* gate_up, int64_t m, int64_t f,
               float* y) const override {
    inner_.SiluMul(parallel, gate_up, m, f, y);
    Spoil("SiluMul", y, m * f);
  }
  void SiluMulBackward(Parallel& parallel, const float* gate_up, const float* dy, int64_t m,
                       int64_t f, float* dgate_up) const override {
    inner_.SiluMulBackward(parallel, gate_up, dy, m, f, dgate_up);
    Spoil("SiluMulBackward", dgate_up, 2 * m * f);
  }
  void LogProb(Parallel& parallel, const float* logits, int64_t m, int64_t v,
               const float* temperature, const int32_t* target, float* log_sum_exp, float* log_prob,
               float* entropy) const override {
    inner_.LogProb(parallel, logits, m, v, temperature, target, log_sum_exp, log_prob, entropy);
    Spoil("LogProb", log_prob, m);
  }
  void LogProbBackward(Parallel& parallel, float* logits, int64_t m, int64_t v,
                       const float* temperature, const int32_t* target, const float* log_sum_exp,
                       const float* coefficient) const override {
    inner_.LogProbBackward(parallel, logits, m, v, temperature, target, log_sum_exp, coefficient);
    Spoil("LogProbBackward", logits, m * v);
  }
  void Probabilities(const float* logits, int64_t v, float temperature, float log_sum_exp,
                     float* p) const override {
    inner_.Probabilities(logits, v, temperature, log_sum_exp, p);
    Spoil("Probabilities", p, v);
  }
  double SumOfSquares(Parallel& parallel, const float* g, int64_t n) const override {
    const double sum = inner_.SumOfSquares(parallel, g, n);
    if (faulty_op_ != "SumOfSquares") return sum;
    return std::bit_cast<double>(std::bit_cast<uint64_t>(sum) ^ 1);
  }
  void AdamW(Parallel& parallel, const AdamWScalars& scalars, int64_t n, const float* gradient,
             float* master, float* moment1, float* moment2) const override {
    inner_.AdamW(parallel, scalars, n, gradient, master, moment1, moment2);
    Spoil("AdamW", moment2, n);
  }
  Digest128 Digest(Parallel& parallel, const float* x, int64_t n,
                   uint64_t first_index) const override {
    Digest128 digest = inner_.Digest(parallel, x, n, first_index);
    if (faulty_op_ == "Digest") digest.high ^= 1;
    return digest;
  }
  void Exp(const float* x, int64_t n, float* y) const override {
    inner_.Exp(x, n, y);
    Spoil("Exp", y, n);
  }
  void Log(const float* x, int64_t n, float* y) const override {
    inner_.Log(x, n, y);
    Spoil("Log", y, n);
  }

 private:
  // The last of n elements, if `op` is the faulty one.
  void Spoil(std::string_view op, float* values, int64_t n) const {
    if (op != faulty_op_ || n == 0) return;
    values[n - 1] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[n - 1]) ^ 1);
  }

  // The same for n elements of the profile.
  void SpoilElement(std::string_view op, void* elements, int64_t n) const {
    if (op != faulty_op_ || n == 0) return;
    static_cast<char*>(elements)[(n - 1) * ElementBytes(profile())] ^= 1;
  }

  const Kernels& inner_;
  const std::string faulty_op_;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_FAULTY_KERNELS_H_
