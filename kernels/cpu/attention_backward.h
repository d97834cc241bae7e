#ifndef LOCKSTEP_KERNELS_CPU_ATTENTION_BACKWARD_H_
#define LOCKSTEP_KERNELS_CPU_ATTENTION_BACKWARD_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/kv_view.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/row_reduction.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/transpose.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Gradient of causal attention, softmax weights recomputed from the forward's log-sum-exp
// (Dao 2023, FlashAttention-2, algorithm 2, in our own order):
//
//   P_ij = exp(s_ij - lse_i)       D_i = dout_i . out_i      dP_ij = dout_i . v_j
//   dS_ij = P_ij * (dP_ij - D_i)   dq_i = scale * sum_j dS_ij k_j
//   dk_j = scale * sum_h,i dS_ij q_i      dv_j = sum_h,i P_ij dout_i
//
// A work item is one KV head of one sequence. It visits (head of the group, query block, key block)
// with the key block running fastest, so that dq meets key blocks and dk and dv meet heads and
// query blocks in ascending order, and P and dS are computed once. Gradients accumulate in their
// place in dqkv; memory is a fixed number of blocks, whatever the length.

// The arguments of AttentionBackward, moved to one sequence: row i is position i.
struct AttentionBackwardArguments {
  const AttentionShape& shape;
  const float* q;
  int64_t q_stride;
  const KvPages& kv;
  const int32_t* pages;
  int64_t rows;
  const float* out;
  const float* log_sum_exp;
  const float* dout;
  float* dqkv;
  int64_t dqkv_stride;
};

// to[i](=) = from[i], i in [0, n).
template <class V, class T>
inline void Widen(const T* from, int64_t n, float* to) {
  ForEachVector<V>(n, [=](int64_t i, auto lanes) { lanes.Store(lanes.Load(from + i), to + i); });
}

template <class V, class Element>
class AttentionBackwardItem {
 public:
  AttentionBackwardItem(const AttentionBackwardArguments& arguments, int64_t kv_head)
      : arguments_(arguments),
        kv_{arguments.kv, arguments.pages, kv_head},
        group_(arguments.shape.q_heads / arguments.shape.kv_heads),
        head_dim_(arguments.shape.head_dim),
        scratch_(6 * S::Rounded(kAttentionBlock * head_dim_) +
                 2 * S::Rounded(kAttentionBlock * kAttentionBlock) + S::Rounded(kAttentionBlock) +
                 S::Rounded(V::kAttentionRows * head_dim_)),
        queries_(scratch_.Take(kAttentionBlock * head_dim_)),
        douts_(scratch_.Take(kAttentionBlock * head_dim_)),
        key_columns_(scratch_.Take(kAttentionBlock * head_dim_)),
        key_rows_(scratch_.Take(kAttentionBlock * head_dim_)),
        value_rows_(scratch_.Take(kAttentionBlock * head_dim_)),
        value_columns_(scratch_.Take(kAttentionBlock * head_dim_)),
        p_(scratch_.Take(kAttentionBlock * kAttentionBlock)),
        ds_(scratch_.Take(kAttentionBlock * kAttentionBlock)),
        dout_out_(scratch_.Take(kAttentionBlock)),
        chains_(scratch_.Take(V::kAttentionRows * head_dim_)) {
    const auto columns_of = [](const float* columns) {
      Columns<float> located;
      located.stride = kAttentionBlock;
      for (int64_t v = 0; v < kBlockVectors; ++v) located.vectors[v] = columns + v * V::kLanes;
      return located;
    };
    keys_located_ = columns_of(key_columns_);
    values_located_ = columns_of(value_columns_);
  }

  void Run() {
    const int64_t rows = arguments_.rows;
    for (int64_t j = 0; j < rows; ++j) {
      std::fill_n(KeyGradient(j), head_dim_, 0.0f);
      std::fill_n(ValueGradient(j), head_dim_, 0.0f);
    }
    for (int64_t member = 0; member < group_; ++member) {
      head_ = kv_.head * group_ + member;
      for (int64_t query = 0; query < rows; query += kAttentionBlock) {
        RunQueryBlock(query, std::min(query + kAttentionBlock, rows));
      }
    }
    for (int64_t j = 0; j < rows; ++j) {
      ScaleAndFinish(KeyGradient(j));
      float* dv = ValueGradient(j);
      ForEachVector<V>(head_dim_, [dv](int64_t d, auto lanes) {
        lanes.Store(Finish(lanes.Load(dv + d)), dv + d);
      });
    }
  }

 private:
  using S = Scratch<V>;
  static constexpr int64_t kBlockVectors = kAttentionBlock / V::kLanes;

  const float* Query(int64_t i) const {
    return arguments_.q + i * arguments_.q_stride + head_ * head_dim_;
  }
  int64_t OutOffset(int64_t i) const { return (i * arguments_.shape.q_heads + head_) * head_dim_; }
  const float* Dout(int64_t i) const { return arguments_.dout + OutOffset(i); }
  float LogSumExp(int64_t i) const {
    return arguments_.log_sum_exp[i * arguments_.shape.q_heads + head_];
  }
  // `slot` counts heads of q | k | v.
  float* Gradient(int64_t slot, int64_t i) const {
    return arguments_.dqkv + i * arguments_.dqkv_stride + slot * head_dim_;
  }
  float* QueryGradient(int64_t i) const { return Gradient(head_, i); }
  float* KeyGradient(int64_t j) const { return Gradient(arguments_.shape.q_heads + kv_.head, j); }
  float* ValueGradient(int64_t j) const {
    return Gradient(arguments_.shape.q_heads + arguments_.shape.kv_heads + kv_.head, j);
  }

  void ScaleAndFinish(float* gradient) const {
    const V scale = V::Broadcast(arguments_.shape.scale);
    ForEachVector<V>(head_dim_, [=](int64_t d, auto lanes) {
      lanes.Store(Finish(lanes.Load(gradient + d) * scale), gradient + d);
    });
  }

  template <class Body>
  static void ForTiles(int64_t rows, Body body) {
    ForRowTiles<V::kAttentionRows>(rows, body);
  }

  // Queries [begin, end) of one block, all their keys.
  void RunQueryBlock(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      dout_out_[i - begin] = RowDot<V>(Dout(i), arguments_.out + OutOffset(i), head_dim_);
      std::fill_n(QueryGradient(i), head_dim_, 0.0f);
    }
    ForTiles(end - begin, [&]<int64_t kRows>(int64_t first) {
      const int64_t i = begin + first;
      PackTile<kRows>([&](int64_t r) { return Query(i + r); }, head_dim_,
                      queries_ + first * head_dim_);
      PackTile<kRows>([&](int64_t r) { return Dout(i + r); }, head_dim_,
                      douts_ + first * head_dim_);
    });
    for (int64_t key = 0; key < end; key += kAttentionBlock) {
      const int64_t key_end = std::min(key + kAttentionBlock, end);
      LoadKeys(key, key_end);
      ForTiles(end - begin, [&]<int64_t kRows>(int64_t first) {
        this->template ComputeWeights<kRows>(begin, begin + first, key, key_end);
      });
      AddQueryGradients(begin, end, key, key_end);
      AddKeyValueGradients(begin, end, key, key_end);
    }
    for (int64_t i = begin; i < end; ++i) ScaleAndFinish(QueryGradient(i));
  }

  // Keys and values [begin, end) in the arrangements that the products want.
  void LoadKeys(int64_t begin, int64_t end) {
    const int64_t page_size = arguments_.kv.page_size;
    kv_.ForEachPage(begin, end, [&](int64_t position, int64_t offset, int64_t count) {
      const int64_t j = position - begin;
      const auto* keys = kv_.Keys(position) + offset;
      for (int64_t d = 0; d < head_dim_; ++d) {
        Widen<V>(keys + d * page_size, count, key_columns_ + d * kAttentionBlock + j);
      }
      Transpose<V>(key_columns_ + j, kAttentionBlock, head_dim_, count, key_rows_ + j * head_dim_,
                   head_dim_);
      const auto* values = kv_.Values(position) + offset * head_dim_;
      for (int64_t i = 0; i < count; ++i) {
        Widen<V>(values + i * head_dim_, head_dim_, value_rows_ + i * head_dim_);
      }
      Transpose<V>(value_rows_, head_dim_, count, head_dim_, value_columns_ + j, kAttentionBlock);
    });
  }

  // Rows of P and dS for queries [i, i + kRows), as far as each one sees keys [key, key_end).
  template <int64_t kRows>
  void ComputeWeights(int64_t begin, int64_t i, int64_t key, int64_t key_end) {
    const int64_t seen_by_last = std::min(key_end, i + kRows) - key;
    float* p = p_ + (i - begin) * kAttentionBlock;
    float* ds = ds_ + (i - begin) * kAttentionBlock;
    const int64_t vectors = (seen_by_last + V::kLanes - 1) / V::kLanes;
    const int64_t tile = (i - begin) * head_dim_;
    Dots<V, kRows>(queries_ + tile, keys_located_, vectors, head_dim_, AllLanes<V>{}, p);
    Dots<V, kRows>(douts_ + tile, values_located_, vectors, head_dim_, AllLanes<V>{}, ds);
    const V scale = V::Broadcast(arguments_.shape.scale);
    for (int64_t r = 0; r < kRows; ++r, p += kAttentionBlock, ds += kAttentionBlock) {
      const V log_sum_exp = V::Broadcast(LogSumExp(i + r));
      const V dout_out = V::Broadcast(dout_out_[i + r - begin]);
      ForEachVector<V>(std::min(key_end, i + r + 1) - key, [=](int64_t j, auto lanes) {
        const V score = lanes.Load(p + j) * scale + V::Zero();
        const V weight = Exp(score - log_sum_exp);
        lanes.Store(weight, p + j);
        lanes.Store(weight * (lanes.Load(ds + j) - dout_out), ds + j);
      });
    }
  }

  // A query sees the keys [key, its own]: those of the tile's first one all do.
  void AddQueryGradients(int64_t begin, int64_t end, int64_t key, int64_t key_end) {
    const auto key_at = [this](int64_t t) { return key_rows_ + t * head_dim_; };
    ForTiles(end - begin, [&]<int64_t kRows>(int64_t first) {
      const int64_t i = begin + first;
      const float* ds = ds_ + first * kAttentionBlock;
      const int64_t shared = std::min(key_end, i + 1) - key;
      std::fill_n(chains_, kRows * head_dim_, 0.0f);
      ExtendWeighted<V, kRows, kAttentionBlock, 1>(ds, 0, shared, head_dim_, key_at, chains_);
      for (int64_t r = 0; r < kRows; ++r) {
        ExtendWeighted<V, 1, kAttentionBlock, 1>(ds + r * kAttentionBlock, shared,
                                                 std::min(key_end, i + r + 1) - key, head_dim_,
                                                 key_at, chains_ + r * head_dim_);
        AddChain(r, QueryGradient(i + r));
      }
    });
  }

  // A key is seen by the queries [its own, end): those of the tile's last one see all.
  void AddKeyValueGradients(int64_t begin, int64_t end, int64_t key, int64_t key_end) {
    const auto query_at = [this, begin](int64_t t) { return Query(begin + t); };
    const auto dout_at = [this, begin](int64_t t) { return Dout(begin + t); };
    ForTiles(key_end - key, [&]<int64_t kRows>(int64_t first) {
      const int64_t j = key + first;
      const auto weigh = [&](const float* weights, auto row_at, auto gradient_of) {
        const int64_t shared = std::max(begin, j + kRows - 1) - begin;
        std::fill_n(chains_, kRows * head_dim_, 0.0f);
        for (int64_t r = 0; r < kRows; ++r) {
          ExtendWeighted<V, 1, 1, kAttentionBlock>(weights + r, std::max(begin, j + r) - begin,
                                                   shared, head_dim_, row_at,
                                                   chains_ + r * head_dim_);
        }
        ExtendWeighted<V, kRows, 1, kAttentionBlock>(weights, shared, end - begin, head_dim_,
                                                     row_at, chains_);
        for (int64_t r = 0; r < kRows; ++r) AddChain(r, gradient_of(j + r));
      };
      weigh(ds_ + first, query_at, [this](int64_t at) { return KeyGradient(at); });
      weigh(p_ + first, dout_at, [this](int64_t at) { return ValueGradient(at); });
    });
  }

  // gradient(+=) chain r of a tile.
  void AddChain(int64_t r, float* gradient) const {
    const float* chain = chains_ + r * head_dim_;
    ForEachVector<V>(head_dim_, [=](int64_t d, auto lanes) {
      lanes.Store(lanes.Load(gradient + d) + lanes.Load(chain + d), gradient + d);
    });
  }

  const AttentionBackwardArguments& arguments_;
  const KvView<V, Element> kv_;
  const int64_t group_;
  const int64_t head_dim_;
  S scratch_;
  float* const queries_;           // of the query block, tile by tile (PackTile)
  float* const douts_;             // of the query block, tile by tile
  float* const key_columns_;       // [head_dim][kAttentionBlock]
  float* const key_rows_;          // [kAttentionBlock][head_dim]
  float* const value_rows_;        // [a page's positions][head_dim]
  float* const value_columns_;     // [head_dim][kAttentionBlock]
  float* const p_;                 // [query][key], kAttentionBlock each
  float* const ds_;                // [query][key]
  float* const dout_out_;          // [kAttentionBlock], D of the query block
  float* const chains_;            // [a tile's rows][head_dim]
  Columns<float> keys_located_;    // key_columns_
  Columns<float> values_located_;  // value_columns_
  int64_t head_ = 0;               // the query head being visited
};

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ATTENTION_BACKWARD_H_
