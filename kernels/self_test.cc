#include "kernels/self_test.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "kernels/op_probe.h"
#include "kernels/serial.h"

namespace lockstep::kernels {
namespace {

absl::Status Compare(std::string_view backend, std::string_view op, const OpOutputs& actual,
                     const OpOutputs& expected) {
  for (size_t o = 0; o < expected.size(); ++o) {
    for (size_t i = 0; i < expected[o].bits.size(); ++i) {
      if (actual[o].bits[i] == expected[o].bits[i]) continue;
      return absl::InternalError(absl::StrFormat(
          "kernels '%s' differ from the reference in %s: %s[%d] has bits 0x%08x, expected 0x%08x",
          backend, op, expected[o].name, i, actual[o].bits[i], expected[o].bits[i]));
    }
  }
  return absl::OkStatus();
}

template <typename Case>
using Probe = OpOutputs (*)(const Kernels&, Parallel&, const Case&, ProbeSeed);

// Compares one operation on all the cases, with both kinds of data, until one differs.
template <typename Case>
absl::Status TestOp(const Kernels& kernels, const Kernels& reference, std::string_view op,
                    Probe<Case> probe, absl::Span<const Case> cases) {
  Serial serial;
  uint64_t seed = 1;
  for (const Case& c : cases) {
    for (const ProbeData data : {ProbeData::kPlain, ProbeData::kEdges}) {
      const ProbeSeed s = {.seed = seed++, .data = data};
      absl::Status status =
          Compare(kernels.name(), op, probe(kernels, serial, c, s), probe(reference, serial, c, s));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SelfTest(const Kernels& kernels, const Kernels& reference) {
  // Shapes: below, at and above the sizes of vectors, tiles, panels, chunks and blocks.
  const std::vector<ProductCase> products = {
      {1, 33, 513}, {2, 7, 1}, {7, 65, 70}, {5, 520, 35}, {131, 31, 9}};
  const std::vector<TokenCase> tokens = {{{1}, 5, 3}, {{130, 7, 0, 128}, 37, 41}};
  const std::vector<RowCase> rows = {{1, 1}, {5, 8}, {6, 77}, {4, 2100}};
  const std::vector<RowCase> heads = {{1, 2}, {5, 16}, {6, 26}};
  const std::vector<AttentionCase> attention = {
      {.q_heads = 3, .kv_heads = 1, .head_dim = 8, .page_size = 8, .sequences = {{0, 1}, {5, 9}}},
      {.q_heads = 4,
       .kv_heads = 2,
       .head_dim = 24,
       .page_size = 32,
       .sequences = {{127, 3}, {260, 1}, {0, 17}}}};
  const std::vector<AttentionCase> whole_data = {
      {.q_heads = 3, .kv_heads = 1, .head_dim = 8, .page_size = 8, .sequences = {{0, 1}, {0, 11}}},
      {.q_heads = 2, .kv_heads = 2, .head_dim = 24, .page_size = 16, .sequences = {{0, 131}}}};

  absl::Status status;
  const auto passes = [&]<typename Case>(std::string_view op, Probe<Case> probe,
                                         const std::vector<Case>& cases) {
    status = TestOp<Case>(kernels, reference, op, probe, cases);
    return status.ok();
  };
  // Stops at the first that fails.
  (void)(passes("Pack", ProbePack, products) && passes("MatMul", ProbeMatMul, products) &&
         passes("MatMulBackwardInput", ProbeMatMulBackwardInput, products) &&
         passes("MatMulBackwardWeight", ProbeMatMulBackwardWeight, tokens) &&
         passes("Embedding", ProbeEmbedding, products) &&
         passes("EmbeddingBackward", ProbeEmbeddingBackward, products) &&
         passes("RmsNorm", ProbeRmsNorm, rows) &&
         passes("RmsNormBackward", ProbeRmsNormBackward, tokens) &&
         passes("HeadNorm", ProbeHeadNorm, rows) &&
         passes("HeadNormBackward", ProbeHeadNormBackward, tokens) &&
         passes("AddBias", ProbeAddBias, rows) &&
         passes("AddBiasBackward", ProbeAddBiasBackward, tokens) && passes("Add", ProbeAdd, rows) &&
         passes("Rope", ProbeRope, heads) && passes("RopeBackward", ProbeRopeBackward, heads) &&
         passes("StoreKv", ProbeStoreKv, attention) &&
         passes("Attention", ProbeAttention, attention) &&
         passes("AttentionBackward", ProbeAttentionBackward, whole_data) &&
         passes("SiluMul", ProbeSiluMul, rows) &&
         passes("SiluMulBackward", ProbeSiluMulBackward, rows) &&
         passes("LogProb", ProbeLogProb, rows) &&
         passes("LogProbBackward", ProbeLogProbBackward, rows) &&
         passes("Probabilities", ProbeProbabilities, rows) &&
         passes("SumOfSquares", ProbeSumOfSquares, rows) && passes("AdamW", ProbeAdamW, rows) &&
         passes("Digest", ProbeDigest, rows) && passes("Exp", ProbeExp, rows) &&
         passes("Log", ProbeLog, rows));
  return status;
}

}  // namespace lockstep::kernels
