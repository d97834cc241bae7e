#ifndef LOCKSTEP_TESTS_KERNELS_REFERENCE_DOUBLE_ORACLE_H_
#define LOCKSTEP_TESTS_KERNELS_REFERENCE_DOUBLE_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/shapes.h"
#include "tests/kernels/reference/running_error.h"

// Every operation as a textbook writes it, over a number type T of running_error.h. These formulas
// share nothing with the kernels but, for the bounds, the number of additions behind a sum.
namespace lockstep::kernels::oracle {

template <typename T>
using Vector = std::vector<T>;

// Additions that one term of a sum may pass through: chunks, then chunk sums, then + 0.
inline int64_t ChunkedDepth(int64_t n, int64_t chunk) {
  return std::min(n, chunk) + (n + chunk - 1) / chunk + 1;
}
// The same for a row reduction: a strided chain, a tree of log2(64) levels, block sums, + 0.
inline int64_t RowDepth(int64_t n) {
  const int64_t chain = (std::min(n, kRowBlock) + kRowChains - 1) / kRowChains;
  return chain + 6 + (n + kRowBlock - 1) / kRowBlock + 1;
}

template <typename T, typename Source>
Vector<T> To(const std::vector<Source>& source) {
  return Vector<T>(source.begin(), source.end());
}

template <typename T, typename A, typename B>
T Dot(int64_t n, int64_t depth, A a, B b) {
  Vector<T> terms(n);
  for (int64_t i = 0; i < n; ++i) terms[i] = a(i) * b(i);
  return Sum(terms, depth);
}

// y[M, N] = x[M, K] w[N, K]^T
template <typename T>
Vector<T> MatMul(const Vector<T>& x, const Vector<T>& w, int64_t m, int64_t n, int64_t k) {
  Vector<T> y(m * n);
  for (int64_t i = 0; i < m * n; ++i) {
    y[i] = Dot<T>(
        k, ChunkedDepth(k, kReduceChunk), [&](int64_t j) { return x[i / n * k + j]; },
        [&](int64_t j) { return w[i % n * k + j]; });
  }
  return y;
}

// dx[M, K] = dy[M, N] w[N, K]
template <typename T>
Vector<T> MatMulBackwardInput(const Vector<T>& dy, const Vector<T>& w, int64_t m, int64_t n,
                              int64_t k) {
  Vector<T> dx(m * k);
  for (int64_t i = 0; i < m * k; ++i) {
    dx[i] = Dot<T>(
        n, ChunkedDepth(n, kReduceChunk), [&](int64_t j) { return dy[i / k * n + j]; },
        [&](int64_t j) { return w[j * k + i % k]; });
  }
  return dx;
}

// Depth of a sum over m tokens in `data` data, added to an accumulator.
inline int64_t TokenDepth(int64_t m, int64_t data) {
  return std::min(m, kTokenChunk) + m / kTokenChunk + data + 1;
}

// dw[N, K] = dy[M, N]^T x[M, K]
template <typename T>
Vector<T> MatMulBackwardWeight(const Vector<T>& dy, const Vector<T>& x, int64_t m, int64_t n,
                               int64_t k, int64_t data) {
  Vector<T> dw(n * k);
  for (int64_t i = 0; i < n * k; ++i) {
    dw[i] = Dot<T>(
        m, TokenDepth(m, data), [&](int64_t row) { return dy[row * n + i / k]; },
        [&](int64_t row) { return x[row * k + i % k]; });
  }
  return dw;
}

template <typename T>
T InverseRms(const T* x, int64_t h, double epsilon) {
  const T sum = Dot<T>(
      h, RowDepth(h), [&](int64_t j) { return x[j]; }, [&](int64_t j) { return x[j]; });
  return T(1) / Sqrt(sum / T(h) + T(epsilon));
}

template <typename T>
Vector<T> RmsNorm(const Vector<T>& x, const Vector<T>& weight, int64_t m, double epsilon) {
  const int64_t h = static_cast<int64_t>(weight.size());
  Vector<T> y(m * h);
  for (int64_t row = 0; row < m; ++row) {
    const T r = InverseRms(&x[row * h], h, epsilon);
    for (int64_t j = 0; j < h; ++j) y[row * h + j] = x[row * h + j] * r * weight[j];
  }
  return y;
}

// dx[M, H], then dweight[H], in one vector.
template <typename T>
Vector<T> RmsNormBackward(const Vector<T>& x, const Vector<T>& weight, const Vector<T>& dy,
                          int64_t m, double epsilon, int64_t data) {
  const int64_t h = static_cast<int64_t>(weight.size());
  Vector<T> gradients((m + 1) * h);
  Vector<T> r(m);
  for (int64_t row = 0; row < m; ++row) {
    const T* x_row = &x[row * h];
    const T* dy_row = &dy[row * h];
    r[row] = InverseRms(x_row, h, epsilon);
    const T s = Dot<T>(
        h, RowDepth(h), [&](int64_t j) { return dy_row[j] * weight[j]; },
        [&](int64_t j) { return x_row[j]; });
    const T c = s * r[row] * r[row] * r[row] / T(h);
    for (int64_t j = 0; j < h; ++j) {
      gradients[row * h + j] = dy_row[j] * weight[j] * r[row] - c * x_row[j];
    }
  }
  for (int64_t j = 0; j < h; ++j) {
    gradients[m * h + j] = Dot<T>(
        m, TokenDepth(m, data), [&](int64_t row) { return dy[row * h + j]; },
        [&](int64_t row) { return x[row * h + j] * r[row]; });
  }
  return gradients;
}

// One head's vector rotated by angles with the given cosines and sines (-sines: transposed).
template <typename T>
Vector<T> Rope(const Vector<T>& x, const Vector<T>& cosine, const Vector<T>& sine) {
  const size_t half = cosine.size();
  Vector<T> y(2 * half);
  for (size_t i = 0; i < half; ++i) {
    y[i] = x[i] * cosine[i] - x[i + half] * sine[i];
    y[i + half] = x[i + half] * cosine[i] + x[i] * sine[i];
  }
  return y;
}

template <typename T>
T Sigmoid(const T& x) {
  return T(1) / (T(1) + Exp(-x));
}

// gate_up[M, 2F] = gate | up
template <typename T>
Vector<T> SiluMul(const Vector<T>& gate_up, int64_t m, int64_t f) {
  Vector<T> y(m * f);
  for (int64_t i = 0; i < m * f; ++i) {
    const T& gate = gate_up[i / f * 2 * f + i % f];
    y[i] = gate / (T(1) + Exp(-gate)) * gate_up[i / f * 2 * f + f + i % f];
  }
  return y;
}

template <typename T>
Vector<T> SiluMulBackward(const Vector<T>& gate_up, const Vector<T>& dy, int64_t m, int64_t f) {
  Vector<T> gradient(m * 2 * f);
  for (int64_t i = 0; i < m * f; ++i) {
    const int64_t gate_index = i / f * 2 * f + i % f;
    const T& gate = gate_up[gate_index];
    const T& up = gate_up[gate_index + f];
    const T s = Sigmoid(gate);
    gradient[gate_index] = dy[i] * up * (s * (T(1) + gate * (T(1) - s)));
    gradient[gate_index + f] = dy[i] * (gate / (T(1) + Exp(-gate)));
  }
  return gradient;
}

// One sequence: q[rows, q_heads, D], k and v[rows, kv_heads, D]; row i is position i.
template <typename T>
struct AttentionInput {
  AttentionShape shape;
  int64_t rows;
  Vector<T> q;
  Vector<T> k;
  Vector<T> v;

  const T* Query(int64_t i, int64_t head) const {
    return &q[(i * shape.q_heads + head) * shape.head_dim];
  }
  int64_t KvIndex(int64_t j, int64_t head) const {
    return (j * shape.kv_heads + head / (shape.q_heads / shape.kv_heads)) * shape.head_dim;
  }
};

template <typename T>
T DotOfHeads(const T* a, const T* b, int64_t head_dim, int64_t depth) {
  return Dot<T>(
      head_dim, depth, [a](int64_t d) { return a[d]; }, [b](int64_t d) { return b[d]; });
}

template <typename T>
struct AttentionRow {
  Vector<T> scores;
  T log_sum_exp;
  Vector<T> output;
};

template <typename T>
AttentionRow<T> Attend(const AttentionInput<T>& in, int64_t i, int64_t head) {
  const int64_t head_dim = in.shape.head_dim;
  AttentionRow<T> row;
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j <= i; ++j) {
    const T chain = DotOfHeads(in.Query(i, head), &in.k[in.KvIndex(j, head)], head_dim, head_dim);
    row.scores.push_back(chain * T(in.shape.scale));
    max = std::max(max, Real(row.scores.back()));
  }
  // Merging a block costs an exp, a product and an FMA on what was gathered before it.
  const int64_t blocks = i / kAttentionBlock + 1;
  const double merges = blocks * (kFunctionError + 2 * kUnitRoundoff);
  Vector<T> weights;
  for (const T& score : row.scores) weights.push_back(Disturb(Exp(score - T(max)), merges));
  const T sum = Sum(weights, RowDepth(kAttentionBlock) + blocks);
  for (int64_t d = 0; d < head_dim; ++d) {
    const T weighted = Dot<T>(
        i + 1, kAttentionBlock + blocks, [&](int64_t j) { return weights[j]; },
        [&](int64_t j) { return in.v[in.KvIndex(j, head) + d]; });
    row.output.push_back(weighted / sum);
  }
  row.log_sum_exp = T(max) + Log(sum);
  return row;
}

// out[rows, q_heads, D], then log_sum_exp[rows, q_heads], in one vector.
template <typename T>
Vector<T> Attention(const AttentionInput<T>& in) {
  Vector<T> out;
  Vector<T> log_sum_exp;
  for (int64_t i = 0; i < in.rows; ++i) {
    for (int64_t head = 0; head < in.shape.q_heads; ++head) {
      AttentionRow<T> row = Attend(in, i, head);
      out.insert(out.end(), row.output.begin(), row.output.end());
      log_sum_exp.push_back(row.log_sum_exp);
    }
  }
  out.insert(out.end(), log_sum_exp.begin(), log_sum_exp.end());
  return out;
}

// dq, dk, dv in the layouts of q, k, v, one behind the other.
template <typename T>
Vector<T> AttentionBackward(const AttentionInput<T>& in, const Vector<T>& dout) {
  const int64_t head_dim = in.shape.head_dim;
  const int64_t depth = ChunkedDepth(in.rows, kAttentionBlock) * in.shape.q_heads;
  const T scale(in.shape.scale);
  Vector<T> dq(in.q.size());
  // Terms of every element of dk and dv, summed at the end.
  Vector<Vector<T>> dk(in.k.size());
  Vector<Vector<T>> dv(in.v.size());
  for (int64_t head = 0; head < in.shape.q_heads; ++head) {
    for (int64_t i = 0; i < in.rows; ++i) {
      const AttentionRow<T> row = Attend(in, i, head);
      const T* query = in.Query(i, head);
      const int64_t out_index = (i * in.shape.q_heads + head) * head_dim;
      const T* dout_row = &dout[out_index];
      const T d_i = DotOfHeads(dout_row, row.output.data(), head_dim, RowDepth(head_dim));
      Vector<T> ds;
      for (int64_t j = 0; j <= i; ++j) {
        const int64_t kv_index = in.KvIndex(j, head);
        const T p = Exp(row.scores[j] - row.log_sum_exp);
        const T dp = DotOfHeads(dout_row, &in.v[kv_index], head_dim, head_dim);
        ds.push_back(p * (dp - d_i));
        for (int64_t d = 0; d < head_dim; ++d) {
          dk[kv_index + d].push_back(ds.back() * query[d]);
          dv[kv_index + d].push_back(p * dout_row[d]);
        }
      }
      for (int64_t d = 0; d < head_dim; ++d) {
        dq[out_index + d] = scale * Dot<T>(
                                        i + 1, depth, [&](int64_t j) { return ds[j]; },
                                        [&](int64_t j) { return in.k[in.KvIndex(j, head) + d]; });
      }
    }
  }
  Vector<T> gradients = dq;
  for (const Vector<T>& terms : dk) gradients.push_back(scale * Sum(terms, depth));
  for (const Vector<T>& terms : dv) gradients.push_back(Sum(terms, depth));
  return gradients;
}

template <typename T>
struct LogProbRow {
  T log_sum_exp;
  T log_prob;
  T entropy;
};

template <typename T>
LogProbRow<T> LogProb(const Vector<T>& logits, double temperature, int64_t target) {
  const int64_t v = static_cast<int64_t>(logits.size());
  Vector<T> z;
  double max = -std::numeric_limits<double>::infinity();
  for (const T& logit : logits) {
    z.push_back(logit / T(temperature));
    max = std::max(max, Real(z.back()));
  }
  Vector<T> weights;
  // A block's sum is rescaled once: an exp and an FMA.
  for (const T& value : z) {
    weights.push_back(Disturb(Exp(value - T(max)), kFunctionError + 2 * kUnitRoundoff));
  }
  const T sum = Sum(weights, RowDepth(v));
  const T weighted = Dot<T>(
      v, RowDepth(v), [&](int64_t i) { return weights[i]; }, [&](int64_t i) { return z[i]; });
  const T log_sum_exp = T(max) + Log(sum);
  return {log_sum_exp, z[target] - log_sum_exp, log_sum_exp - weighted / sum};
}

// coefficient / temperature * (onehot(target) - softmax(logits / temperature))
template <typename T>
Vector<T> LogProbBackward(const Vector<T>& logits, double temperature, int64_t target,
                          double coefficient) {
  const T log_sum_exp = LogProb(logits, temperature, target).log_sum_exp;
  Vector<T> gradient;
  for (size_t i = 0; i < logits.size(); ++i) {
    const T p = Exp(logits[i] / T(temperature) - log_sum_exp);
    const T one_hot(static_cast<int64_t>(i) == target ? 1.0 : 0.0);
    gradient.push_back(T(coefficient) / T(temperature) * (one_hot - p));
  }
  return gradient;
}

}  // namespace lockstep::kernels::oracle

#endif  // LOCKSTEP_TESTS_KERNELS_REFERENCE_DOUBLE_ORACLE_H_
