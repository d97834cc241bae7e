#ifndef LOCKSTEP_KERNELS_KERNELS_H_
#define LOCKSTEP_KERNELS_KERNELS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "kernels/parallel.h"
#include "kernels/shapes.h"

namespace lockstep::kernels {

// The kernel vocabulary: every arithmetic operation that a model, its gradient and its optimizer
// are made of, in one profile. There is one definition of each, docs/numerics.md, in executable
// form kernels/reference; every other backend produces the same bits.
//
// Matrices are row-major and contiguous unless a stride is named; M counts rows (tokens). "(=)"
// outputs are overwritten, "(+=)" outputs are added to. Outputs never alias inputs unless said.
// A row's outputs depend on that row (and for attention its own sequence) alone: other rows may
// hold NaN. Outputs of arithmetic are finished: -0 and denormals become +0, NaN becomes 0x7fc00000.
// Each operation with arithmetic sets DAZ|FTZ for itself and restores the caller's floating-point
// state. Copies (Pack, Embedding, StoreKv) keep every bit, or round to bf16 and nothing else.
//
// Data ("datum_begins"): operations that reduce over tokens are given the rows at which each datum
// begins, and the total behind the last: {0, ..., M}. Each datum is cut into chunks of kTokenChunk
// positions; a chunk is one FMA chain from +0; chunks are added to the accumulator ascending.
//
// Lifetime and thread safety: stateless after construction; safe to share.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // The instruction set (select.h), as reported by GetServerInfo.
  virtual std::string_view name() const = 0;
  virtual Profile profile() const = 0;

  // panels(=) from w[N, K] row-major; layout of PackedMatrix. A copy, but for bf16's rounding.
  virtual void Pack(Parallel& parallel, const float* w, int64_t n, int64_t k,
                    void* panels) const = 0;

  // y[M, N](=) = x[M, K] · w^T. k in chunks of kReduceChunk. In profile bf16 this and the two
  // products behind it round both operands; results are fp32.
  virtual void MatMul(Parallel& parallel, const float* x, int64_t m, const PackedMatrix& w,
                      float* y) const = 0;
  // dx[M, K](=) = dy[M, N] · w. The reduction runs over n ascending, in chunks of kReduceChunk;
  // reads the same packed weights as the forward product, so no second copy can go stale.
  virtual void MatMulBackwardInput(Parallel& parallel, const float* dy, int64_t m,
                                   const PackedMatrix& w, float* dx) const = 0;
  // dw[N, K](+=) = dy[M, N]^T · x[M, K], in datum chunks.
  virtual void MatMulBackwardWeight(Parallel& parallel, const float* dy, const float* x,
                                    absl::Span<const int64_t> datum_begins, int64_t n, int64_t k,
                                    float* dw) const = 0;

  // y[M, K](=): row token_ids[i] of `table` (one row a vocabulary entry). A copy.
  virtual void Embedding(Parallel& parallel, absl::Span<const int32_t> token_ids,
                         const PackedMatrix& table, float* y) const = 0;
  // dtable[N, K] row-major (+=): rows of dy added one by one, ascending.
  virtual void EmbeddingBackward(Parallel& parallel, absl::Span<const int32_t> token_ids,
                                 const float* dy, int64_t k, float* dtable) const = 0;

  // y[i] = x[i] * r * weight, r = 1 / sqrt(mean(x^2) + eps), (x * r) rounded first.
  // inverse_rms[M](=) keeps r for the backward. (Zhang and Sennrich 2019, RMSNorm.)
  virtual void RmsNorm(Parallel& parallel, const float* x, const float* weight, int64_t m,
                       int64_t h, float epsilon, float* y, float* inverse_rms) const = 0;
  // dx[M, H](=), dweight[H](+=) in datum chunks.
  virtual void RmsNormBackward(Parallel& parallel, const float* x, const float* weight,
                               const float* inverse_rms, const float* dy,
                               absl::Span<const int64_t> datum_begins, int64_t h, float* dx,
                               float* dweight) const = 0;

  // The same norm over the head_dim elements of each of `heads` consecutive heads at the start of
  // every row, in place (Qwen3's query and key norm). x has `stride` floats from row to row.
  // before[M, heads, head_dim](=) and inverse_rms[M, heads](=) keep what the backward needs.
  virtual void HeadNorm(Parallel& parallel, float* x, int64_t stride, const float* weight,
                        int64_t m, int64_t heads, int64_t head_dim, float epsilon, float* before,
                        float* inverse_rms) const = 0;
  // In place: dx holds the gradient of the output, then that of the input. dweight[head_dim](+=) in
  // datum chunks of kTokenChunk (position, head) pairs, heads of a position ascending.
  virtual void HeadNormBackward(Parallel& parallel, const float* before, const float* weight,
                                const float* inverse_rms, absl::Span<const int64_t> datum_begins,
                                int64_t heads, int64_t head_dim, float* dx, int64_t stride,
                                float* dweight) const = 0;

  // y[M, N] += bias[N], in place: behind a finished product.
  virtual void AddBias(Parallel& parallel, const float* bias, int64_t m, int64_t n,
                       float* y) const = 0;
  // dbias[N](+=): columns of dy[M, N] added up in datum chunks.
  virtual void AddBiasBackward(Parallel& parallel, const float* dy,
                               absl::Span<const int64_t> datum_begins, int64_t n,
                               float* dbias) const = 0;

  // y[n](=) = a[n] + b[n]. y may be a or b.
  virtual void Add(Parallel& parallel, const float* a, const float* b, int64_t n,
                   float* y) const = 0;

  // Rotates pairs (i, i + head_dim / 2) of `heads` consecutive heads at the start of every row, in
  // place. x has `stride` floats from row to row; cosine and sine are [positions, head_dim / 2],
  // indexed by positions[i]. (Su et al. 2021, in the half-split form of Hugging Face.)
  virtual void Rope(Parallel& parallel, float* x, int64_t stride, int64_t heads, int64_t head_dim,
                    absl::Span<const int32_t> positions, const float* cosine,
                    const float* sine) const = 0;
  // The transposed rotation, in place on dx.
  virtual void RopeBackward(Parallel& parallel, float* dx, int64_t stride, int64_t heads,
                            int64_t head_dim, absl::Span<const int32_t> positions,
                            const float* cosine, const float* sine) const = 0;

  // Writes K and V of every row to its page. k and v point at the first row's first head; both
  // have `stride` floats from row to row. A copy, but for bf16's rounding.
  virtual void StoreKv(Parallel& parallel, const float* k, const float* v, int64_t stride,
                       absl::Span<const SequenceRows> sequences, const KvPages& kv) const = 0;

  // Causal attention of every row over positions [0, its own] of its sequence, read from pages.
  // q: first row's first head, `q_stride` floats from row to row. out[M, q_heads * head_dim](=);
  // log_sum_exp[M, q_heads](=) may be null when no backward follows.
  virtual void Attention(Parallel& parallel, const AttentionShape& shape, const float* q,
                         int64_t q_stride, absl::Span<const SequenceRows> sequences,
                         const KvPages& kv, float* out, float* log_sum_exp) const = 0;
  // REQUIRES: every sequence has first_position 0 (a whole datum).
  // dqkv (=): row stride `dqkv_stride`, laid out q | k | v by heads, gradients of the rotated q, k.
  virtual void AttentionBackward(Parallel& parallel, const AttentionShape& shape, const float* q,
                                 int64_t q_stride, absl::Span<const SequenceRows> sequences,
                                 const KvPages& kv, const float* out, const float* log_sum_exp,
                                 const float* dout, float* dqkv, int64_t dqkv_stride) const = 0;

  // y[M, F](=) = silu(gate) * up, gate_up[M, 2F] = gate | up, no rounding beyond the fp32 ops.
  virtual void SiluMul(Parallel& parallel, const float* gate_up, int64_t m, int64_t f,
                       float* y) const = 0;
  // dgate_up[M, 2F](=).
  virtual void SiluMulBackward(Parallel& parallel, const float* gate_up, const float* dy, int64_t m,
                               int64_t f, float* dgate_up) const = 0;

  // z = logits / temperature[row] (a division; temperature 1 is the identity). Per row over the
  // whole width V: log_sum_exp(=), log_prob(=) = z[target] - log_sum_exp, entropy(=) of softmax(z)
  // in nats. target -1 gives log_prob NaN. entropy may be null. Any of M = 0 rows is fine.
  virtual void LogProb(Parallel& parallel, const float* logits, int64_t m, int64_t v,
                       const float* temperature, const int32_t* target, float* log_sum_exp,
                       float* log_prob, float* entropy) const = 0;
  // In place: logits become dlogits = coefficient / temperature * (onehot(target) - softmax(z)),
  // where coefficient[row] = dLoss / dlog_prob. A row with coefficient 0 becomes zeros.
  virtual void LogProbBackward(Parallel& parallel, float* logits, int64_t m, int64_t v,
                               const float* temperature, const int32_t* target,
                               const float* log_sum_exp, const float* coefficient) const = 0;
  // p[V](=) = exp(logits / temperature - log_sum_exp), one row, for the sampler.
  virtual void Probabilities(const float* logits, int64_t v, float temperature, float log_sum_exp,
                             float* p) const = 0;

  // Sum of squares of a named gradient tensor: fp32 row reductions over leaves of kGradientLeaf
  // elements, leaves added ascending in double.
  virtual double SumOfSquares(Parallel& parallel, const float* g, int64_t n) const = 0;
  // AdamW (Loshchilov and Hutter 2019) on master, moment1, moment2, all in place.
  virtual void AdamW(Parallel& parallel, const AdamWScalars& scalars, int64_t n,
                     const float* gradient, float* master, float* moment1,
                     float* moment2) const = 0;
  // Digest of one tensor whose first element has the canonical index first_index, over its raw bits
  // (kernels/digest_hash.h): integers only. Those of several tensors add, in any order.
  virtual Digest128 Digest(Parallel& parallel, const float* x, int64_t n,
                           uint64_t first_index) const = 0;

  // y[n](=) = exp(x[n]), log(x[n]): our own polynomials, exposed for tests and host code.
  virtual void Exp(const float* x, int64_t n, float* y) const = 0;
  virtual void Log(const float* x, int64_t n, float* y) const = 0;
};

// The specification: plain scalar C++.
std::unique_ptr<Kernels> CreateReferenceKernels(Profile profile = Profile::kFp32);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_KERNELS_H_
