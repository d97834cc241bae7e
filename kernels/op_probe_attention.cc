#include <limits>
#include <numeric>
#include <utility>

#include "kernels/op_probe.h"
#include "kernels/op_probe_data.h"

namespace lockstep::kernels {

using probe::Floats;
using probe::Generator;
using probe::Output;

namespace {

// A batch of sequences over pages in shuffled order.
class PagedBatch {
 public:
  PagedBatch(Profile profile, Generator& generator, const AttentionCase& c)
      : c_(c),
        page_stride_(2 * c.kv_heads * c.head_dim * c.page_size + kGap),
        data_(profile, PageCount() * page_stride_) {
    const int64_t page_count = PageCount();
    std::vector<int32_t> order(page_count);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = page_count - 1; i > 0; --i) std::swap(order[i], order[generator.Below(i + 1)]);

    data_.Fill(std::numeric_limits<float>::quiet_NaN());
    page_ids_.reserve(c.sequences.size());
    int64_t next_page = 0;
    for (const auto& sequence : c.sequences) {
      page_ids_.emplace_back(order.begin() + next_page,
                             order.begin() + next_page + PagesOf(sequence));
      next_page += PagesOf(sequence);
      rows_.push_back({.row_begin = row_count_,
                       .row_count = sequence.row_count,
                       .first_position = sequence.first_position,
                       .pages = page_ids_.back()});
      row_count_ += sequence.row_count;
    }
  }

  KvPages pages() {
    return {.data = data_.data(),
            .page_stride = page_stride_,
            .page_size = c_.page_size,
            .kv_heads = c_.kv_heads,
            .head_dim = c_.head_dim};
  }
  absl::Span<const SequenceRows> sequences() const { return rows_; }
  int64_t row_count() const { return row_count_; }
  const probe::Elements& data() const { return data_; }
  AttentionShape shape() const {
    return {.q_heads = c_.q_heads,
            .kv_heads = c_.kv_heads,
            .head_dim = c_.head_dim,
            .scale = 0.125f + 0.01f * static_cast<float>(c_.head_dim)};
  }

  // Keys and values of every position a row can see.
  void Fill(Generator& generator) {
    for (const SequenceRows& sequence : rows_) {
      const int64_t length = sequence.first_position + sequence.row_count;
      for (int64_t position = 0; position < length; ++position) {
        const int64_t page = sequence.pages[position / c_.page_size] * page_stride_;
        const int64_t slot = position % c_.page_size;
        const Floats k = generator.Vector(c_.kv_heads * c_.head_dim);
        const Floats v = generator.Vector(c_.kv_heads * c_.head_dim);
        const int64_t values = page + c_.kv_heads * c_.head_dim * c_.page_size;
        for (int64_t i = 0; i < c_.kv_heads * c_.head_dim; ++i) {
          data_.Set(page + i * c_.page_size + slot, k[i]);
          data_.Set(
              values + (i / c_.head_dim * c_.page_size + slot) * c_.head_dim + i % c_.head_dim,
              v[i]);
        }
      }
    }
  }

 private:
  // Elements between pages that belong to none.
  static constexpr int64_t kGap = 5;

  int64_t PagesOf(const AttentionCase::Sequence& sequence) const {
    return (sequence.first_position + sequence.row_count + c_.page_size - 1) / c_.page_size;
  }

  int64_t PageCount() const {
    int64_t count = 0;
    for (const auto& sequence : c_.sequences) count += PagesOf(sequence);
    return count;
  }

  const AttentionCase& c_;
  const int64_t page_stride_;
  int64_t row_count_ = 0;
  probe::Elements data_;
  std::vector<std::vector<int32_t>> page_ids_;
  std::vector<SequenceRows> rows_;
};

}  // namespace

OpOutputs ProbeStoreKv(const Kernels& kernels, Parallel& parallel, const AttentionCase& c,
                       ProbeSeed s) {
  Generator generator(s);
  PagedBatch batch(kernels.profile(), generator, c);
  const int64_t width = c.kv_heads * c.head_dim;
  const int64_t stride = 2 * width;
  const Floats kv = generator.Rows(batch.row_count(), stride);
  kernels.StoreKv(parallel, kv.data(), kv.data() + width, stride, batch.sequences(), batch.pages());
  return {batch.data().Output("pages")};
}

OpOutputs ProbeAttention(const Kernels& kernels, Parallel& parallel, const AttentionCase& c,
                         ProbeSeed s) {
  Generator generator(s);
  PagedBatch batch(kernels.profile(), generator, c);
  batch.Fill(generator);
  const int64_t stride = c.q_heads * c.head_dim + 3;
  const Floats q = generator.Rows(batch.row_count(), stride);
  Floats out(batch.row_count() * c.q_heads * c.head_dim);
  Floats out_alone(out.size());
  Floats log_sum_exp(batch.row_count() * c.q_heads);
  kernels.Attention(parallel, batch.shape(), q.data(), stride, batch.sequences(), batch.pages(),
                    out.data(), log_sum_exp.data());
  kernels.Attention(parallel, batch.shape(), q.data(), stride, batch.sequences(), batch.pages(),
                    out_alone.data(), nullptr);
  return {Output("out", out), Output("log_sum_exp", log_sum_exp),
          Output("out (no log_sum_exp)", out_alone)};
}

OpOutputs ProbeAttentionBackward(const Kernels& kernels, Parallel& parallel, const AttentionCase& c,
                                 ProbeSeed s) {
  Generator generator(s);
  PagedBatch batch(kernels.profile(), generator, c);
  batch.Fill(generator);
  const int64_t m = batch.row_count();
  const int64_t out_width = c.q_heads * c.head_dim;
  const int64_t stride = (c.q_heads + 2 * c.kv_heads) * c.head_dim + 3;
  const Floats q = generator.Rows(m, stride);
  const Floats out = generator.Vector(m * out_width);
  const Floats dout = generator.Vector(m * out_width);
  // Somewhat above what a softmax gives, so that weights stay finite.
  Floats log_sum_exp(m * c.q_heads);
  for (float& value : log_sum_exp) value = 6.0f + generator.Plain();
  Floats dqkv(m * stride, 0.0f);
  kernels.AttentionBackward(parallel, batch.shape(), q.data(), stride, batch.sequences(),
                            batch.pages(), out.data(), log_sum_exp.data(), dout.data(), dqkv.data(),
                            stride);
  return {Output("dqkv", dqkv)};
}

}  // namespace lockstep::kernels
