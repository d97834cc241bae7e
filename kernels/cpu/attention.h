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
        scratch_(2 * S::Rounded(queries_ * head_dim_) + 2 * S::Rounded(queries_) +
                 S::Rounded(V::kAttentionRows * kAttentionBlock) +
                 S::Rounded(V::kAttentionRows * head_dim_)),
        packed_(scratch_.Take(queries_ * head_dim_)),
        outputs_(scratch_.Take(queries_ * head_dim_)),
        maxima_(scratch_.Take(queries_)),
        sums_(scratch_.Take(queries_)),
        scores_(scratch_.Take(V::kAttentionRows * kAttentionBlock)),
        chains_(scratch_.Take(V::kAttentionRows * head_dim_)) {}

  void Run() {
    ForQueryTiles([&]<int64_t kRows>(int64_t first) {
      PackTile<kRows>(
          [&](int64_t r) {
            return arguments_.q + Row(first + r) * arguments_.q_stride +
                   Head(first + r) * head_dim_;
          },
          head_dim_, packed_ + first * head_dim_);
    });
    const int64_t keys_max = Keys(queries_ - 1);
    for (int64_t begin = 0; begin < keys_max; begin += kAttentionBlock) {
      LocateBlock(begin, std::min(begin + kAttentionBlock, keys_max));
      ForQueryTiles(
          [&]<int64_t kRows>(int64_t first) { this->template AttendBlock<kRows>(begin, first); });
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
  // Columns in a vector: a page may be smaller.
  int64_t ColumnLanes() const { return std::min(V::kLanes, arguments_.kv.page_size); }

  template <class Body>
  void ForQueryTiles(Body body) const {
    ForRowTiles<V::kAttentionRows>(queries_, body);
  }

  // Finds keys and values [begin, end) of a block in the pages.
  void LocateBlock(int64_t begin, int64_t end) {
    const int64_t lanes = ColumnLanes();
    key_columns_.stride = arguments_.kv.page_size;
    kv_.ForEachPage(begin, end, [&](int64_t position, int64_t /*offset*/, int64_t keys) {
      const T* columns = kv_.Keys(position);
      const T* rows = kv_.Values(position);
      const int64_t key = position - begin;
      for (int64_t i = 0; i < keys; i += lanes)
        key_columns_.vectors[(key + i) / lanes] = columns + i;
      for (int64_t i = 0; i < keys; ++i) value_rows_[key + i] = rows + i * head_dim_;
    });
  }

  // Takes the located block, of keys from `begin`, into queries [first, first + kRows).
  template <int64_t kRows>
  void AttendBlock(int64_t begin, int64_t first) {
    // A query sees at least the keys of the one before it.
    const auto keys_of = [&](int64_t r) {
      return std::clamp(Keys(first + r) - begin, int64_t{0}, kAttentionBlock);
    };
    const int64_t keys_max = keys_of(kRows - 1);
    if (keys_max == 0) return;
    // Whole vectors: scores behind a query's last key are computed and never read.
    const float* packed = packed_ + first * head_dim_;
    const int64_t vectors = (keys_max + ColumnLanes() - 1) / ColumnLanes();
    if (ColumnLanes() == V::kLanes) {
      Dots<V, kRows>(packed, key_columns_, vectors, head_dim_, AllLanes<V>{}, scores_);
    } else {
      Dots<V, kRows>(packed, key_columns_, vectors, head_dim_, FirstLanes<V>{ColumnLanes()},
                     scores_);
    }
    int64_t row = 0;  // the first that sees a key
    while (keys_of(row) == 0) ++row;
    // Step by step for all rows: one row's steps wait for each other.
    float max[kRows], sum[kRows];
    for (int64_t r = row; r < kRows; ++r) max[r] = ScaleScores(Scores(r), keys_of(r));
    for (int64_t r = row; r < kRows; ++r) Exponentiate(Scores(r), keys_of(r), max[r]);
    for (int64_t r = row; r < kRows; ++r) sum[r] = RowSum<V>(Scores(r), keys_of(r));

    std::fill_n(chains_, kRows * head_dim_, 0.0f);
    const auto value_at = [this](int64_t t) { return value_rows_[t]; };
    ExtendWeighted<V, kRows, kAttentionBlock, 1>(scores_, 0, keys_of(0), head_dim_, value_at,
                                                 chains_);
    for (int64_t r = row; r < kRows; ++r) {
      ExtendWeighted<V, 1, kAttentionBlock, 1>(Scores(r), keys_of(0), keys_of(r), head_dim_,
                                               value_at, chains_ + r * head_dim_);
    }
    if (begin == 0) {
      std::copy(max + row, max + kRows, maxima_ + first + row);
      std::copy(sum + row, sum + kRows, sums_ + first + row);
      std::copy(chains_ + row * head_dim_, chains_ + kRows * head_dim_,
                outputs_ + (first + row) * head_dim_);
    } else {
      Merge<kRows>(first + row, kRows - row, max + row, sum + row, chains_ + row * head_dim_);
    }
  }

  float* Scores(int64_t r) const { return scores_ + r * kAttentionBlock; }

  // Scales products of a query and keys to scores; the largest.
  float ScaleScores(float* scores, int64_t keys) const {
    const V scale = V::Broadcast(arguments_.shape.scale);
    return RowMax<V>(keys, [=](int64_t i, auto lanes) {
      const V score = lanes.Load(scores + i) * scale + V::Zero();
      lanes.Store(score, scores + i);
      return score;
    });
  }

  static void Exponentiate(float* scores, int64_t keys, float max) {
    ForEachVector<V>(keys, [=](int64_t i, auto lanes) {
      lanes.Store(Exp(lanes.Load(scores + i) - V::Broadcast(max)), scores + i);
    });
  }

  // Takes a block's maxima, sums of weights and weighted values into queries [query, query +
  // count).
  template <int64_t kRows>
  void Merge(int64_t query, int64_t count, const float* max, const float* sum,
             const float* chains) {
    float scale_total[kRows], scale_block[kRows];
    ForEachVector<V>(count, [&](int64_t r, auto lanes) {
      const V total_max = lanes.Load(maxima_ + query + r);
      const V block_max = lanes.Load(max + r);
      const V merged = Max(total_max, block_max);
      const V of_total = Exp(total_max - merged);
      const V of_block = Exp(block_max - merged);
      const V total = lanes.Load(sums_ + query + r);
      lanes.Store(merged, maxima_ + query + r);
      lanes.Store(Fma(total, of_total, lanes.Load(sum + r) * of_block), sums_ + query + r);
      lanes.Store(of_total, scale_total + r);
      lanes.Store(of_block, scale_block + r);
    });
    for (int64_t r = 0; r < count; ++r) {
      const V of_total = V::Broadcast(scale_total[r]);
      const V of_block = V::Broadcast(scale_block[r]);
      float* output = outputs_ + (query + r) * head_dim_;
      const float* chain = chains + r * head_dim_;
      ForEachVector<V>(head_dim_, [=](int64_t d, auto lanes) {
        const V total = lanes.Load(output + d);
        lanes.Store(Fma(total, of_total, lanes.Load(chain + d) * of_block), output + d);
      });
    }
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
  float* const packed_;                   // the queries, tile by tile (PackTile)
  float* const outputs_;                  // [queries][head_dim], sums of weights times values
  float* const maxima_;                   // [queries]
  float* const sums_;                     // [queries], sums of weights
  float* const scores_;                   // [a tile's rows][kAttentionBlock]
  float* const chains_;                   // [a tile's rows][head_dim]
  Columns<T> key_columns_;                // of the located block
  const T* value_rows_[kAttentionBlock];  // of the located block
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
