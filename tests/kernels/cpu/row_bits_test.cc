// Goal: operations of every backend on rows and elements have the reference's bits at widths beside
// every multiple that the code knows (vectors of 8 and 16, strip 64, row block 1,024, gradient leaf
// 4,096). Method: bit comparison on seeded data, exact allocations, 1 to 3 threads.

#include "gtest/gtest.h"
#include "kernels/op_probe.h"
#include "tests/kernels/cpu/same_bits.h"

namespace lockstep::kernels {
namespace {

class RowBitsTest : public BackendTest, public testing::WithParamInterface<int> {
 protected:
  // Rows enough for every thread, and so that widths below the grain are cut too.
  RowCase Case() const { return {.m = GetParam() < 100 ? 700 : 9, .width = GetParam()}; }
};

TEST_P(RowBitsTest, RmsNorm) { ExpectReferenceBits(ProbeRmsNorm, Case()); }

TEST_P(RowBitsTest, RmsNormBackward) {
  ExpectReferenceBits(ProbeRmsNormBackward,
                      TokenCase{.datum_lengths = {3, 0, 130, 1}, .k = GetParam()});
}

TEST_P(RowBitsTest, HeadNorm) {
  ExpectReferenceBits(ProbeHeadNorm, Case());
  ExpectReferenceBits(ProbeHeadNormBackward,
                      TokenCase{.datum_lengths = {3, 0, 130, 1}, .k = GetParam()});
}

TEST_P(RowBitsTest, Elementwise) {
  ExpectReferenceBits(ProbeAddBias, Case());
  ExpectReferenceBits(ProbeAddBiasBackward,
                      TokenCase{.datum_lengths = {3, 0, 130, 1}, .k = GetParam()});
  ExpectReferenceBits(ProbeAdd, Case());
  ExpectReferenceBits(ProbeSiluMul, Case());
  ExpectReferenceBits(ProbeSiluMulBackward, Case());
  ExpectReferenceBits(ProbeExp, Case());
  ExpectReferenceBits(ProbeLog, Case());
}

TEST_P(RowBitsTest, LogProb) {
  ExpectReferenceBits(ProbeLogProb, Case());
  ExpectReferenceBits(ProbeLogProbBackward, Case());
  ExpectReferenceBits(ProbeProbabilities, Case());
}

TEST_P(RowBitsTest, Optimizer) {
  ExpectReferenceBits(ProbeSumOfSquares, Case());
  ExpectReferenceBits(ProbeAdamW, Case());
  ExpectReferenceBits(ProbeDigest, Case());
}

INSTANTIATE_TEST_SUITE_P(Widths, RowBitsTest,
                         testing::Values(1, 2, 7, 8, 9, 31, 63, 64, 65, 259, 1023, 1024, 1025, 1111,
                                         2048, 4095, 4097));

class DigestBitsTest : public BackendTest, public testing::WithParamInterface<int> {};

// Around its blocks and what a thread takes of them.
TEST_P(DigestBitsTest, OneTensor) {
  ExpectReferenceBits(ProbeDigest, RowCase{.m = 1, .width = GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Sizes, DigestBitsTest,
                         testing::Values(1, 1023, 1024, 1025, 2047, 8191, 8192, 8193, 9215, 16384));

class RopeBitsTest : public BackendTest, public testing::WithParamInterface<int> {};

TEST_P(RopeBitsTest, BothDirections) {
  const RowCase c = {.m = 301, .width = GetParam()};
  ExpectReferenceBits(ProbeRope, c);
  ExpectReferenceBits(ProbeRopeBackward, c);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, RopeBitsTest, testing::Values(2, 8, 16, 24, 32, 64, 128));

class LongRowsBitsTest : public BackendTest {};

TEST_F(LongRowsBitsTest, Vocabulary) {
  const RowCase c = {.m = 3, .width = 49153};
  ExpectReferenceBits(ProbeLogProb, c);
  ExpectReferenceBits(ProbeLogProbBackward, c);
}

TEST_F(LongRowsBitsTest, Optimizer) {
  const RowCase c = {.m = 211, .width = 1009};
  ExpectReferenceBits(ProbeSumOfSquares, c);
  ExpectReferenceBits(ProbeAdamW, c);
  ExpectReferenceBits(ProbeDigest, c);
}

}  // namespace
}  // namespace lockstep::kernels
