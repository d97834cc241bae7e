#ifndef LOCKSTEP_KERNELS_CPU_ATTENTION_H_
#define LOCKSTEP_KERNELS_CPU_ATTENTION_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/kv_view.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/row_reduction.h"
#include "kernels/cpu/scratch.h"
#include "kernels/shapes.h"

namespace lockstep::kernels::cpu {

// Causal attention over paged K and V. Keys are taken in blocks of kAttentionBlock absolute
// positions; a block has a softmax of its own (maximum, sum, weighted values), merged into the
// total ascending. A work item is a few rows of one sequence under one KV head: all their query
// heads pass over a key block while it is in cache.

// Rows of one work item.
inline constexpr int64_t kAttentionRows = 16;

// The arguments of Attention.
struct AttentionArguments {
  const AttentionShape& shape;
  const float* q;
  int64_t q_stride;
  const KvPages& kv;
  float* out;
  float* log_sum_exp;  // may be null
};

// The queries of one work item: row by row, in a row the heads of the group.
template <class V, class Element>
class AttentionItem {
 public:
  // Rows [row, row + rows) of a sequence, the first at `position`.
  AttentionItem(const AttentionArguments& arguments, const int32_t* pages, int64_t kv_head,
                int64_t row, int64_t rows, int64_t position)
      : arguments_(arguments),
        kv_{arguments.kv, pages, kv_head},
        group_(arguments.shape.q_heads / arguments.shape.kv_heads),
        head_dim_(arguments.shape.head_dim),
        row_(row),
        position_(position),
        queries_(rows * group_),
        scratch_(S::Rounded(queries_ * head_dim_) + 2 * S::Rounded(queries_) +
                 S::Rounded(kDotVectors * kAttentionBlock)),
        outputs_(scratch_.Take(queries_ * head_dim_)),
        maxima_(scratch_.Take(queries_)),
        sums_(scratch_.Take(queries_)),
        scores_(scratch_.Take(kDotVectors * kAttentionBlock)) {}

  void Run() {
    const int64_t keys_max = Keys(queries_ - 1);
    for (int64_t begin = 0; begin < keys_max; begin += kAttentionBlock) {
      for (int64_t query = 0; query < queries_; query += kDotVectors) {
        AttendBlock(begin, query, std::min(kDotVectors, queries_ - query));
      }
    }
    for (int64_t query = 0; query < queries_; ++query) Write(query);
  }

 private:
  using S = Scratch<V>;
  using T = typename Element::Type;

  int64_t Row(int64_t query) const { return row_ + query / group_; }
  int64_t Head(int64_t query) const { return kv_.head * group_ + query % group_; }
  // Positions the query sees: all up to its own.
  int64_t Keys(int64_t query) const { return position_ + query / group_ + 1; }

  // Takes the block of keys from `begin` into queries [first, first + count).
  void AttendBlock(int64_t begin, int64_t first, int64_t count) {
    // The last of the queries sees the most keys. The others' scores behind their own end are
    // computed beside them and never read.
    const int64_t end = std::min(begin + kAttentionBlock, Keys(first + count - 1));
    if (end <= begin) return;
    const float* rows[kDotVectors];
    for (int64_t i = 0; i < count; ++i) {
      rows[i] = arguments_.q + Row(first + i) * arguments_.q_stride + Head(first + i) * head_dim_;
    }
    const T* values[kAttentionBlock];
    kv_.ForEachPage(begin, end, [&](int64_t position, int64_t offset, int64_t keys) {
      Dots<V>(rows, count, kv_.Keys(position) + offset, arguments_.kv.page_size, keys, head_dim_,
              scores_ + (position - begin), kAttentionBlock);
      const T* page = kv_.Values(position) + offset * head_dim_;
      for (int64_t i = 0; i < keys; ++i) values[position - begin + i] = page + i * head_dim_;
    });
    for (int64_t i = 0; i < count; ++i) {
      const int64_t keys = std::min(kAttentionBlock, Keys(first + i) - begin);
      if (keys <= 0) continue;
      TakeIn(first + i, scores_ + i * kAttentionBlock, values, keys, begin == 0);
    }
  }

  // scores: the products of query and keys, unscaled; overwritten.
  void TakeIn(int64_t query, float* scores, const T* const* values, int64_t keys, bool first) {
    const V scale = V::Broadcast(arguments_.shape.scale);
    const float max = RowMax<V>(keys, [&](int64_t i, auto lanes) {
      const V score = lanes.Load(scores + i) * scale + V::Zero();
      lanes.Store(score, scores + i);
      return score;
    });
    ForEachVector<V>(keys, [&](int64_t i, auto lanes) {
      lanes.Store(Exp(lanes.Load(scores + i) - V::Broadcast(max)), scores + i);
    });
    const float sum = RowSum<V>(scores, keys);
    float* output = outputs_ + query * head_dim_;
    const auto value_at = [values](int64_t t) { return values[t]; };
    if (first) {
      maxima_[query] = max;
      sums_[query] = sum;
      WeighRows<V>(scores, 1, 0, keys, head_dim_, value_at,
                   [output](int64_t d, auto lanes, V chain) { lanes.Store(chain, output + d); });
      return;
    }
    const float merged = max > maxima_[query] ? max : maxima_[query];
    const V scale_total = Exp(V::Broadcast(maxima_[query] - merged));
    const V scale_block = Exp(V::Broadcast(max - merged));
    maxima_[query] = merged;
    sums_[query] =
        FirstLane(Fma(V::Broadcast(sums_[query]), scale_total, V::Broadcast(sum) * scale_block));
    WeighRows<V>(scores, 1, 0, keys, head_dim_, value_at, [=](int64_t d, auto lanes, V chain) {
      const V total = lanes.Load(output + d);
      lanes.Store(Fma(total, scale_total, chain * scale_block), output + d);
    });
  }

  void Write(int64_t query) const {
    const V sum = V::Broadcast(sums_[query]);
    const float* output = outputs_ + query * head_dim_;
    const int64_t index = Row(query) * arguments_.shape.q_heads + Head(query);
    float* to = arguments_.out + index * head_dim_;
    ForEachVector<V>(head_dim_, [&](int64_t d, auto lanes) {
      lanes.Store(Finish(lanes.Load(output + d) / sum), to + d);
    });
    if (arguments_.log_sum_exp != nullptr) {
      arguments_.log_sum_exp[index] = FirstLane(Finish(V::Broadcast(maxima_[query]) + Log(sum)));
    }
  }

  const AttentionArguments& arguments_;
  const KvView<V, Element> kv_;
  const int64_t group_;
  const int64_t head_dim_;
  const int64_t row_;
  const int64_t position_;
  const int64_t queries_;
  S scratch_;
  float* const outputs_;  // [queries][head_dim], sums of weights times values
  float* const maxima_;   // [queries]
  float* const sums_;     // [queries], sums of weights
  float* const scores_;   // [kDotVectors][kAttentionBlock]
};

// The work items of all sequences, counted through: (row block, KV head) of the first sequence,
// then of the next. Calls body(sequence, first row within it, rows, kv_head) for items [begin,
// end).
template <class V, class Body>
void ForEachAttentionItem(absl::Span<const SequenceRows> sequences, int64_t kv_heads, int64_t begin,
                          int64_t end, Body body) {
  int64_t base = 0;
  for (const SequenceRows& sequence : sequences) {
    const int64_t blocks = (sequence.row_count + kAttentionRows - 1) / kAttentionRows;
    for (int64_t item = std::max(begin - base, int64_t{0});
         item < std::min(end - base, blocks * kv_heads); ++item) {
      const int64_t first = item / kv_heads * kAttentionRows;
      body(sequence, first, std::min(kAttentionRows, sequence.row_count - first), item % kv_heads);
    }
    base += blocks * kv_heads;
  }
}

template <class V>
int64_t AttentionItems(absl::Span<const SequenceRows> sequences, int64_t kv_heads) {
  int64_t items = 0;
  for (const SequenceRows& sequence : sequences) {
    items += (sequence.row_count + kAttentionRows - 1) / kAttentionRows * kv_heads;
  }
  return items;
}

}  // namespace lockstep::kernels::cpu

#endif  // LOCKSTEP_KERNELS_CPU_ATTENTION_H_
