// Goal: no operation's threads share what they write. The bit tests are too slow for a run under
// ThreadSanitizer; this is one call of each operation, large enough to be cut for three threads.
// Method: bit comparison with the reference on 1, 2 and 3 threads.

#include "gtest/gtest.h"
#include "kernels/op_probe.h"
#include "tests/kernels/cpu/same_bits.h"

namespace lockstep::kernels {
namespace {

class ThreadCountTest : public BackendTest {};

TEST_F(ThreadCountTest, Products) {
  const ProductCase c = {.m = 130, .n = 300, .k = 70};
  ExpectReferenceBits(ProbePack, c);
  ExpectReferenceBits(ProbeMatMul, c);
  ExpectReferenceBits(ProbeMatMulBackwardInput, c);
  ExpectReferenceBits(ProbeMatMulBackwardWeight,
                      TokenCase{.datum_lengths = {40, 17}, .n = 200, .k = 50});
}

TEST_F(ThreadCountTest, Embedding) {
  const ProductCase c = {.m = 300, .n = 19, .k = 150};
  ExpectReferenceBits(ProbeEmbedding, c);
  ExpectReferenceBits(ProbeEmbeddingBackward, c);
}

TEST_F(ThreadCountTest, Rows) {
  const RowCase c = {.m = 31, .width = 1100};
  ExpectReferenceBits(ProbeRmsNorm, c);
  ExpectReferenceBits(ProbeRmsNormBackward,
                      TokenCase{.datum_lengths = {20, 13}, .n = 0, .k = 1100});
  ExpectReferenceBits(ProbeSiluMul, c);
  ExpectReferenceBits(ProbeSiluMulBackward, c);
  ExpectReferenceBits(ProbeLogProb, c);
  ExpectReferenceBits(ProbeLogProbBackward, c);
  const RowCase heads = {.m = 600, .width = 32};
  ExpectReferenceBits(ProbeRope, heads);
  ExpectReferenceBits(ProbeRopeBackward, heads);
  ExpectReferenceBits(ProbeHeadNorm, heads);
  ExpectReferenceBits(ProbeHeadNormBackward,
                      TokenCase{.datum_lengths = {400, 213}, .n = 0, .k = 32});
}

TEST_F(ThreadCountTest, Elements) {
  const RowCase c = {.m = 31, .width = 1100};
  ExpectReferenceBits(ProbeAdd, c);
  ExpectReferenceBits(ProbeAddBias, c);
  ExpectReferenceBits(ProbeAddBiasBackward,
                      TokenCase{.datum_lengths = {20, 13}, .n = 0, .k = 1100});
  ExpectReferenceBits(ProbeSumOfSquares, c);
  ExpectReferenceBits(ProbeAdamW, c);
  ExpectReferenceBits(ProbeDigest, c);
}

TEST_F(ThreadCountTest, Attention) {
  AttentionCase c = {.q_heads = 4, .kv_heads = 2, .head_dim = 64, .page_size = 16, .sequences = {}};
  c.sequences = {{.first_position = 9, .row_count = 50}, {.first_position = 130, .row_count = 1}};
  ExpectReferenceBits(ProbeStoreKv, c);
  ExpectReferenceBits(ProbeAttention, c);
  c.sequences = {{.first_position = 0, .row_count = 40}, {.first_position = 0, .row_count = 7}};
  ExpectReferenceBits(ProbeAttentionBackward, c);
}

}  // namespace
}  // namespace lockstep::kernels
