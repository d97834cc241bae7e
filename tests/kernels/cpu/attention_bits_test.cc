// Goal: attention of every backend has the reference's bits for every page size, head count and
// position, and what lies behind a sequence's end (NaN here) never enters. Method: bit comparison
// on seeded data in shuffled pages, exact allocations, 1 to 3 threads.

#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/op_probe.h"
#include "tests/kernels/cpu/same_bits.h"

namespace lockstep::kernels {
namespace {

struct Heads {
  int64_t q;
  int64_t kv;
  int64_t dim;
};

class AttentionBitsTest : public BackendTest,
                          public testing::WithParamInterface<std::tuple<int, Heads>> {
 protected:
  AttentionCase Case(std::vector<AttentionCase::Sequence> sequences) const {
    const auto& [page_size, heads] = GetParam();
    return {.q_heads = heads.q,
            .kv_heads = heads.kv,
            .head_dim = heads.dim,
            .page_size = page_size,
            .sequences = std::move(sequences)};
  }
};

// Decode rows, prefill chunks from any position, a row alone: one batch.
const std::vector<AttentionCase::Sequence> kMixed = {
    {.first_position = 0, .row_count = 1},   {.first_position = 7, .row_count = 1},
    {.first_position = 127, .row_count = 1}, {.first_position = 128, .row_count = 1},
    {.first_position = 0, .row_count = 33},  {.first_position = 121, .row_count = 17},
    {.first_position = 300, .row_count = 5}, {.first_position = 3, .row_count = 130},
};

TEST_P(AttentionBitsTest, Forward) { ExpectReferenceBits(ProbeAttention, Case(kMixed)); }

TEST_P(AttentionBitsTest, StoreKv) { ExpectReferenceBits(ProbeStoreKv, Case(kMixed)); }

TEST_P(AttentionBitsTest, Backward) {
  ExpectReferenceBits(ProbeAttentionBackward,
                      Case({{0, 1}, {0, 2}, {0, 31}, {0, 127}, {0, 128}, {0, 129}, {0, 5}}));
}

TEST_P(AttentionBitsTest, BackwardOverSeveralBlocks) {
  ExpectReferenceBits(ProbeAttentionBackward, Case({{0, 271}}));
}

std::string Name(const testing::TestParamInfo<std::tuple<int, Heads>>& info) {
  const Heads& heads = std::get<1>(info.param);
  return "page" + std::to_string(std::get<0>(info.param)) + "_q" + std::to_string(heads.q) + "_kv" +
         std::to_string(heads.kv) + "_d" + std::to_string(heads.dim);
}

INSTANTIATE_TEST_SUITE_P(Pages, AttentionBitsTest,
                         testing::Combine(testing::Values(8, 16, 32, 64, 128),
                                          testing::Values(Heads{3, 1, 24})),
                         Name);
INSTANTIATE_TEST_SUITE_P(HeadShapes, AttentionBitsTest,
                         testing::Combine(testing::Values(16),
                                          testing::Values(Heads{1, 1, 8}, Heads{4, 2, 64},
                                                          Heads{5, 1, 40}, Heads{2, 2, 80})),
                         Name);

}  // namespace
}  // namespace lockstep::kernels
