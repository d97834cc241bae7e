// Goal: matrix products of every backend have the reference's bits at every row count, for sizes
// beside every multiple that the code knows (vectors of 8 and 16, panel 32, tiles of 2, 3 and 12,
// row block 128, chunk 512). Method: bit comparison on seeded data, exact allocations, 1 to 3
// threads.

#include <string>

#include "gtest/gtest.h"
#include "kernels/op_probe.h"
#include "tests/kernels/cpu/same_bits.h"

namespace lockstep::kernels {
namespace {

class MatMulBitsTest : public BackendTest, public testing::WithParamInterface<int> {
 protected:
  int64_t M() const { return GetParam(); }
};

constexpr ProductCase kSizes[] = {
    {.n = 1, .k = 1},     {.n = 7, .k = 3},   {.n = 33, .k = 513},
    {.n = 31, .k = 1029}, {.n = 67, .k = 96}, {.n = 577, .k = 41},
};

std::string Describe(const ProductCase& c) {
  return "m " + std::to_string(c.m) + " n " + std::to_string(c.n) + " k " + std::to_string(c.k);
}

TEST_P(MatMulBitsTest, Forward) {
  for (ProductCase c : kSizes) {
    c.m = M();
    SCOPED_TRACE(Describe(c));
    ExpectReferenceBits(ProbeMatMul, c);
  }
}

TEST_P(MatMulBitsTest, BackwardInput) {
  for (ProductCase c : kSizes) {
    c.m = M();
    SCOPED_TRACE(Describe(c));
    ExpectReferenceBits(ProbeMatMulBackwardInput, c);
  }
}

TEST_P(MatMulBitsTest, BackwardWeight) {
  for (const ProductCase& size : kSizes) {
    const TokenCase c = {.datum_lengths = {M()}, .n = size.n, .k = size.k};
    SCOPED_TRACE(Describe({M(), size.n, size.k}));
    ExpectReferenceBits(ProbeMatMulBackwardWeight, c);
  }
}

TEST_P(MatMulBitsTest, Embedding) {
  ExpectReferenceBits(ProbeEmbedding, ProductCase{.m = M(), .n = 259, .k = 37});
  ExpectReferenceBits(ProbeEmbeddingBackward, ProductCase{.m = M(), .n = 11, .k = 37});
}

INSTANTIATE_TEST_SUITE_P(Rows, MatMulBitsTest,
                         testing::Values(1, 2, 3, 4, 5, 7, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128,
                                         129, 257));

class PackedBitsTest : public BackendTest {};

TEST_F(PackedBitsTest, PackCopiesEveryBit) {
  for (const ProductCase& c : kSizes) {
    SCOPED_TRACE(Describe(c));
    ExpectReferenceBits(ProbePack, c);
  }
}

TEST_F(PackedBitsTest, BackwardWeightCutsAtData) {
  ExpectReferenceBits(ProbeMatMulBackwardWeight,
                      TokenCase{.datum_lengths = {1, 127, 0, 128, 129, 3, 260}, .n = 35, .k = 70});
  // More rows of dw than share one copy of x.
  ExpectReferenceBits(ProbeMatMulBackwardWeight,
                      TokenCase{.datum_lengths = {5, 131}, .n = 1031, .k = 33});
}

TEST_F(PackedBitsTest, NoRows) {
  ExpectReferenceBits(ProbeMatMul, ProductCase{.m = 0, .n = 5, .k = 3});
  ExpectReferenceBits(ProbeMatMulBackwardInput, ProductCase{.m = 0, .n = 5, .k = 3});
}

}  // namespace
}  // namespace lockstep::kernels
