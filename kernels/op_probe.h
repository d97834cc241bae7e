#ifndef LOCKSTEP_KERNELS_OP_PROBE_H_
#define LOCKSTEP_KERNELS_OP_PROBE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::kernels {

// One call of one operation on data that a seed decides, and the bits that came out: what the
// start-up self-test and the bit tests compare between backends. Inputs and outputs are allocated
// at their exact size, so that a sanitizer sees any access past an end.

// One output tensor. Doubles and digests are given as their 32-bit words, NaN as the canonical one.
struct OpOutput {
  std::string_view name;
  std::vector<uint32_t> bits;
};
using OpOutputs = std::vector<OpOutput>;

enum class ProbeData {
  kPlain,  // normal numbers around 1
  // Among them zeros of both signs, denormals, numbers whose products underflow or overflow; and
  // where an operation has rows, a row with a NaN and one with an infinity.
  kEdges,
};

struct ProbeSeed {
  uint64_t seed = 1;
  ProbeData data = ProbeData::kPlain;
};

struct ProductCase {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// A reduction over tokens; `datum_lengths` are the lengths of the data, M their sum.
struct TokenCase {
  std::vector<int64_t> datum_lengths;
  int64_t n = 0;
  int64_t k = 0;
};

struct RowCase {
  int64_t m = 0;
  int64_t width = 0;
};

struct AttentionCase {
  struct Sequence {
    int64_t first_position = 0;
    int64_t row_count = 0;
  };
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t page_size = 0;
  std::vector<Sequence> sequences;
};

// The name of each function is Probe and the operation's.
OpOutputs ProbePack(const Kernels& kernels, Parallel& parallel, const ProductCase& c, ProbeSeed s);
OpOutputs ProbeMatMul(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                      ProbeSeed s);
OpOutputs ProbeMatMulBackwardInput(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                                   ProbeSeed s);
OpOutputs ProbeMatMulBackwardWeight(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                                    ProbeSeed s);

// m tokens of a table [n, k].
OpOutputs ProbeEmbedding(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                         ProbeSeed s);
OpOutputs ProbeEmbeddingBackward(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                                 ProbeSeed s);

OpOutputs ProbeRmsNorm(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
// Width c.k; c.n is not used.
OpOutputs ProbeRmsNormBackward(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                               ProbeSeed s);

// c.m rows of three heads, two of them normed; head_dim c.width.
OpOutputs ProbeHeadNorm(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
// Two heads; head_dim c.k; c.n is not used.
OpOutputs ProbeHeadNormBackward(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                                ProbeSeed s);

OpOutputs ProbeAddBias(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
// Width c.k; c.n is not used.
OpOutputs ProbeAddBiasBackward(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                               ProbeSeed s);
OpOutputs ProbeAdd(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
// head_dim c.width, two heads of a row of three.
OpOutputs ProbeRope(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
OpOutputs ProbeRopeBackward(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                            ProbeSeed s);

// Pages lie in shuffled order; what lies behind a sequence's end is NaN.
OpOutputs ProbeStoreKv(const Kernels& kernels, Parallel& parallel, const AttentionCase& c,
                       ProbeSeed s);
OpOutputs ProbeAttention(const Kernels& kernels, Parallel& parallel, const AttentionCase& c,
                         ProbeSeed s);
// REQUIRES: first positions are 0.
OpOutputs ProbeAttentionBackward(const Kernels& kernels, Parallel& parallel, const AttentionCase& c,
                                 ProbeSeed s);

OpOutputs ProbeSiluMul(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
OpOutputs ProbeSiluMulBackward(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                               ProbeSeed s);

OpOutputs ProbeLogProb(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
OpOutputs ProbeLogProbBackward(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                               ProbeSeed s);
// One row; c.m is not used.
OpOutputs ProbeProbabilities(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                             ProbeSeed s);

// m * width elements.
OpOutputs ProbeSumOfSquares(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                            ProbeSeed s);
OpOutputs ProbeAdamW(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
OpOutputs ProbeDigest(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
OpOutputs ProbeExp(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);
OpOutputs ProbeLog(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_OP_PROBE_H_
