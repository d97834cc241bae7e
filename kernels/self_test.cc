#include "kernels/self_test.h"

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
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

// Comparisons to be made, each independent of the others.
class Comparisons {
 public:
  Comparisons(const Kernels& kernels, const Kernels& reference)
      : kernels_(kernels), reference_(reference) {}

  // One operation on all the cases, with both kinds of data.
  template <typename Case>
  void Add(std::string_view op, Probe<Case> probe, const std::vector<Case>& cases) {
    uint64_t seed = 1;
    for (const Case& c : cases) {
      for (const ProbeData data : {ProbeData::kPlain, ProbeData::kEdges}) {
        const ProbeSeed s = {.seed = seed++, .data = data};
        comparisons_.push_back([this, op, probe, c, s] {
          Serial serial;
          return Compare(kernels_.name(), op, probe(kernels_, serial, c, s),
                         probe(reference_, serial, c, s));
        });
      }
    }
  }

  // What the first one that differs says.
  absl::Status Run(Parallel& parallel) const {
    std::vector<absl::Status> results(comparisons_.size());
    parallel.For(static_cast<int64_t>(comparisons_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) results[i] = comparisons_[i]();
    });
    for (absl::Status& result : results) {
      if (!result.ok()) return std::move(result);
    }
    return absl::OkStatus();
  }

 private:
  const Kernels& kernels_;
  const Kernels& reference_;
  std::vector<std::function<absl::Status()>> comparisons_;
};

}  // namespace

absl::Status SelfTest(Parallel& parallel, const Kernels& kernels, const Kernels& reference) {
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
      {.q_heads = 4, .kv_heads = 2, .head_dim = 8, .page_size = 8, .sequences = {{0, 1}, {0, 11}}},
      {.q_heads = 1, .kv_heads = 1, .head_dim = 24, .page_size = 16, .sequences = {{0, 131}}}};

  Comparisons comparisons(kernels, reference);
  comparisons.Add("Pack", ProbePack, products);
  comparisons.Add("MatMul", ProbeMatMul, products);
  comparisons.Add("MatMulBackwardInput", ProbeMatMulBackwardInput, products);
  comparisons.Add("MatMulBackwardWeight", ProbeMatMulBackwardWeight, tokens);
  comparisons.Add("Embedding", ProbeEmbedding, products);
  comparisons.Add("EmbeddingBackward", ProbeEmbeddingBackward, products);
  comparisons.Add("RmsNorm", ProbeRmsNorm, rows);
  comparisons.Add("RmsNormBackward", ProbeRmsNormBackward, tokens);
  comparisons.Add("HeadNorm", ProbeHeadNorm, rows);
  comparisons.Add("HeadNormBackward", ProbeHeadNormBackward, tokens);
  comparisons.Add("AddBias", ProbeAddBias, rows);
  comparisons.Add("AddBiasBackward", ProbeAddBiasBackward, tokens);
  comparisons.Add("Add", ProbeAdd, rows);
  comparisons.Add("Rope", ProbeRope, heads);
  comparisons.Add("RopeBackward", ProbeRopeBackward, heads);
  comparisons.Add("StoreKv", ProbeStoreKv, attention);
  comparisons.Add("Attention", ProbeAttention, attention);
  comparisons.Add("AttentionBackward", ProbeAttentionBackward, whole_data);
  comparisons.Add("SiluMul", ProbeSiluMul, rows);
  comparisons.Add("SiluMulBackward", ProbeSiluMulBackward, rows);
  comparisons.Add("LogProb", ProbeLogProb, rows);
  comparisons.Add("LogProbBackward", ProbeLogProbBackward, rows);
  comparisons.Add("Probabilities", ProbeProbabilities, rows);
  comparisons.Add("SumOfSquares", ProbeSumOfSquares, rows);
  comparisons.Add("AdamW", ProbeAdamW, rows);
  comparisons.Add("Digest", ProbeDigest, rows);
  comparisons.Add("Exp", ProbeExp, rows);
  comparisons.Add("Log", ProbeLog, rows);
  return comparisons.Run(parallel);
}

}  // namespace lockstep::kernels
