#include "kernels/op_probe.h"

#include <bit>

#include "kernels/op_probe_data.h"

namespace lockstep::kernels {

using probe::DatumBegins;
using probe::Floats;
using probe::Generator;
using probe::Output;
using probe::PanelsOf;

OpOutputs ProbePack(const Kernels& kernels, Parallel& parallel, const ProductCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats w = generator.Rows(c.n, c.k);
  probe::Elements panels = probe::Panels(kernels.profile(), c.n, c.k);
  kernels.Pack(parallel, w.data(), c.n, c.k, panels.data());
  return {panels.Output("panels")};
}

OpOutputs ProbeMatMul(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                      ProbeSeed s) {
  Generator generator(s);
  const Floats x = generator.Rows(c.m, c.k);
  probe::Elements panels = PanelsOf(kernels.profile(), generator.Vector(c.n * c.k), c.n, c.k);
  Floats y(c.m * c.n);
  kernels.MatMul(parallel, x.data(), c.m, {panels.data(), c.n, c.k}, y.data());
  return {Output("y", y)};
}

OpOutputs ProbeMatMulBackwardInput(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                                   ProbeSeed s) {
  Generator generator(s);
  const Floats dy = generator.Rows(c.m, c.n);
  probe::Elements panels = PanelsOf(kernels.profile(), generator.Vector(c.n * c.k), c.n, c.k);
  Floats dx(c.m * c.k);
  kernels.MatMulBackwardInput(parallel, dy.data(), c.m, {panels.data(), c.n, c.k}, dx.data());
  return {Output("dx", dx)};
}

OpOutputs ProbeMatMulBackwardWeight(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                                    ProbeSeed s) {
  Generator generator(s);
  const std::vector<int64_t> begins = DatumBegins(c);
  const Floats dy = generator.Rows(begins.back(), c.n);
  const Floats x = generator.Vector(begins.back() * c.k);
  Floats dw = generator.Vector(c.n * c.k);
  kernels.MatMulBackwardWeight(parallel, dy.data(), x.data(), begins, c.n, c.k, dw.data());
  return {Output("dw", dw)};
}

OpOutputs ProbeEmbedding(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                         ProbeSeed s) {
  Generator generator(s);
  const std::vector<int32_t> tokens = generator.Tokens(c.m, c.n);
  probe::Elements panels = PanelsOf(kernels.profile(), generator.Rows(c.n, c.k), c.n, c.k);
  Floats y(c.m * c.k);
  kernels.Embedding(parallel, tokens, {panels.data(), c.n, c.k}, y.data());
  return {Output("y", y)};
}

OpOutputs ProbeEmbeddingBackward(const Kernels& kernels, Parallel& parallel, const ProductCase& c,
                                 ProbeSeed s) {
  Generator generator(s);
  const std::vector<int32_t> tokens = generator.Tokens(c.m, c.n);
  const Floats dy = generator.Rows(c.m, c.k);
  Floats dtable = generator.Vector(c.n * c.k);
  kernels.EmbeddingBackward(parallel, tokens, dy.data(), c.k, dtable.data());
  return {Output("dtable", dtable)};
}

OpOutputs ProbeRmsNorm(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats x = generator.Rows(c.m, c.width);
  const Floats weight = generator.Vector(c.width);
  Floats y(c.m * c.width);
  Floats inverse_rms(c.m);
  kernels.RmsNorm(parallel, x.data(), weight.data(), c.m, c.width, 1e-5f, y.data(),
                  inverse_rms.data());
  return {Output("y", y), Output("inverse_rms", inverse_rms)};
}

OpOutputs ProbeRmsNormBackward(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                               ProbeSeed s) {
  Generator generator(s);
  const std::vector<int64_t> begins = DatumBegins(c);
  const Floats x = generator.Rows(begins.back(), c.k);
  const Floats weight = generator.Vector(c.k);
  const Floats inverse_rms = generator.Positive(begins.back());
  const Floats dy = generator.Vector(begins.back() * c.k);
  Floats dx(begins.back() * c.k);
  Floats dweight = generator.Vector(c.k);
  kernels.RmsNormBackward(parallel, x.data(), weight.data(), inverse_rms.data(), dy.data(), begins,
                          c.k, dx.data(), dweight.data());
  return {Output("dx", dx), Output("dweight", dweight)};
}

OpOutputs ProbeHeadNorm(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  constexpr int64_t kHeads = 2;
  Generator generator(s);
  const int64_t stride = 3 * c.width;
  Floats x = generator.Rows(c.m, stride);
  const Floats weight = generator.Vector(c.width);
  Floats before(c.m * kHeads * c.width);
  Floats inverse_rms(c.m * kHeads);
  kernels.HeadNorm(parallel, x.data(), stride, weight.data(), c.m, kHeads, c.width, 1e-5f,
                   before.data(), inverse_rms.data());
  return {Output("x", x), Output("before", before), Output("inverse_rms", inverse_rms)};
}

OpOutputs ProbeHeadNormBackward(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                                ProbeSeed s) {
  constexpr int64_t kHeads = 2;
  Generator generator(s);
  const std::vector<int64_t> begins = DatumBegins(c);
  const int64_t m = begins.back();
  const int64_t stride = 3 * c.k;
  const Floats before = generator.Rows(m, kHeads * c.k);
  const Floats weight = generator.Vector(c.k);
  const Floats inverse_rms = generator.Positive(m * kHeads);
  Floats dx = generator.Vector(m * stride);
  Floats dweight = generator.Vector(c.k);
  kernels.HeadNormBackward(parallel, before.data(), weight.data(), inverse_rms.data(), begins,
                           kHeads, c.k, dx.data(), stride, dweight.data());
  return {Output("dx", dx), Output("dweight", dweight)};
}

OpOutputs ProbeAddBias(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats bias = generator.Vector(c.width);
  Floats y = generator.Rows(c.m, c.width);
  kernels.AddBias(parallel, bias.data(), c.m, c.width, y.data());
  return {Output("y", y)};
}

OpOutputs ProbeAddBiasBackward(const Kernels& kernels, Parallel& parallel, const TokenCase& c,
                               ProbeSeed s) {
  Generator generator(s);
  const std::vector<int64_t> begins = DatumBegins(c);
  const Floats dy = generator.Rows(begins.back(), c.k);
  Floats dbias = generator.Vector(c.k);
  kernels.AddBiasBackward(parallel, dy.data(), begins, c.k, dbias.data());
  return {Output("dbias", dbias)};
}

OpOutputs ProbeAdd(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats a = generator.Rows(c.m, c.width);
  const Floats b = generator.Rows(c.m, c.width);
  Floats y(c.m * c.width);
  kernels.Add(parallel, a.data(), b.data(), c.m * c.width, y.data());
  return {Output("y", y)};
}

namespace {

OpOutputs Rotate(Parallel& parallel, const Kernels& kernels, const RowCase& c, ProbeSeed s,
                 decltype(&Kernels::Rope) rotate) {
  constexpr int64_t kPositions = 19;
  Generator generator(s);
  const int64_t stride = 3 * c.width;
  Floats x = generator.Rows(c.m, stride);
  const std::vector<int32_t> positions = generator.Tokens(c.m, kPositions);
  const Floats cosine = generator.Vector(kPositions * c.width / 2);
  const Floats sine = generator.Vector(kPositions * c.width / 2);
  (kernels.*rotate)(parallel, x.data(), stride, 2, c.width, positions, cosine.data(), sine.data());
  return {Output("x", x)};
}

}  // namespace

OpOutputs ProbeRope(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  return Rotate(parallel, kernels, c, s, &Kernels::Rope);
}

OpOutputs ProbeRopeBackward(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                            ProbeSeed s) {
  return Rotate(parallel, kernels, c, s, &Kernels::RopeBackward);
}

OpOutputs ProbeSiluMul(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats gate_up = generator.Rows(c.m, 2 * c.width, 8.0f);
  Floats y(c.m * c.width);
  kernels.SiluMul(parallel, gate_up.data(), c.m, c.width, y.data());
  return {Output("y", y)};
}

OpOutputs ProbeSiluMulBackward(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                               ProbeSeed s) {
  Generator generator(s);
  const Floats gate_up = generator.Rows(c.m, 2 * c.width, 8.0f);
  const Floats dy = generator.Vector(c.m * c.width);
  Floats dgate_up(2 * c.m * c.width);
  kernels.SiluMulBackward(parallel, gate_up.data(), dy.data(), c.m, c.width, dgate_up.data());
  return {Output("dgate_up", dgate_up)};
}

namespace {

struct LogProbInputs {
  LogProbInputs(Generator& generator, const RowCase& c)
      : logits(generator.Rows(c.m, c.width, 12.0f)), temperature(c.m), target(c.m) {
    for (float& t : temperature) t = generator.Temperature();
    for (int32_t& t : target) t = static_cast<int32_t>(generator.Below(c.width + 1)) - 1;
  }

  Floats logits;
  Floats temperature;
  std::vector<int32_t> target;  // now and then -1
};

}  // namespace

OpOutputs ProbeLogProb(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const LogProbInputs in(generator, c);
  Floats log_sum_exp(c.m);
  Floats log_prob(c.m);
  Floats entropy(c.m);
  Floats log_prob_alone(c.m);
  kernels.LogProb(parallel, in.logits.data(), c.m, c.width, in.temperature.data(), in.target.data(),
                  log_sum_exp.data(), log_prob_alone.data(), nullptr);
  kernels.LogProb(parallel, in.logits.data(), c.m, c.width, in.temperature.data(), in.target.data(),
                  log_sum_exp.data(), log_prob.data(), entropy.data());
  return {Output("log_sum_exp", log_sum_exp), Output("log_prob", log_prob),
          Output("entropy", entropy), Output("log_prob (no entropy)", log_prob_alone)};
}

OpOutputs ProbeLogProbBackward(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                               ProbeSeed s) {
  Generator generator(s);
  LogProbInputs in(generator, c);
  Floats log_sum_exp(c.m);
  for (float& value : log_sum_exp) value = 12.0f + generator.Plain();
  Floats coefficient = generator.Vector(c.m);
  coefficient[c.m / 2] = 0.0f;
  kernels.LogProbBackward(parallel, in.logits.data(), c.m, c.width, in.temperature.data(),
                          in.target.data(), log_sum_exp.data(), coefficient.data());
  return {Output("dlogits", in.logits)};
}

OpOutputs ProbeProbabilities(const Kernels& kernels, Parallel& /*parallel*/, const RowCase& c,
                             ProbeSeed s) {
  Generator generator(s);
  const Floats logits = generator.Vector(c.width, 12.0f);
  Floats p(c.width);
  kernels.Probabilities(logits.data(), c.width, generator.Temperature(), 11.5f, p.data());
  return {Output("p", p)};
}

OpOutputs ProbeSumOfSquares(const Kernels& kernels, Parallel& parallel, const RowCase& c,
                            ProbeSeed s) {
  Generator generator(s);
  const Floats g = generator.Rows(c.m, c.width);
  const double sum = kernels.SumOfSquares(parallel, g.data(), c.m * c.width);
  if (sum != sum) return {{"sum", {0x7fc00000}}};
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  return {{"sum", {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}}};
}

OpOutputs ProbeAdamW(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const int64_t n = c.m * c.width;
  const Floats gradient = generator.Rows(c.m, c.width);
  Floats master = generator.Vector(n);
  Floats moment1 = generator.Vector(n, 0.1f);
  Floats moment2 = generator.Positive(n);
  const AdamWScalars scalars = {.gradient_scale = 0.37f,
                                .learning_rate = 1e-2f,
                                .beta1 = 0.9f,
                                .one_minus_beta1 = 0.1f,
                                .beta2 = 0.95f,
                                .one_minus_beta2 = 0.05f,
                                .inverse_correction1 = 3.69f,
                                .inverse_correction2 = 7.01f,
                                .epsilon = 1e-8f,
                                .decay = 1e-3f};
  kernels.AdamW(parallel, scalars, n, gradient.data(), master.data(), moment1.data(),
                moment2.data());
  return {Output("master", master), Output("moment1", moment1), Output("moment2", moment2)};
}

OpOutputs ProbeDigest(const Kernels& kernels, Parallel& parallel, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats x = generator.Rows(c.m, c.width);
  const Digest128 digest = kernels.Digest(parallel, x.data(), c.m * c.width, 0xfffffffeu);
  return {{"digest",
           {static_cast<uint32_t>(digest.low), static_cast<uint32_t>(digest.low >> 32),
            static_cast<uint32_t>(digest.high), static_cast<uint32_t>(digest.high >> 32)}}};
}

namespace {

// Arguments over the whole range of exp and log, not only around 1.
Floats WideArguments(Generator& generator, const RowCase& c) {
  Floats x = generator.Rows(c.m, c.width, 110.0f);
  for (size_t i = 0; i < x.size(); i += 3) x[i] *= 0x1p-12f;
  return x;
}

}  // namespace

OpOutputs ProbeExp(const Kernels& kernels, Parallel& /*parallel*/, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats x = WideArguments(generator, c);
  Floats y(x.size());
  kernels.Exp(x.data(), c.m * c.width, y.data());
  return {Output("y", y)};
}

OpOutputs ProbeLog(const Kernels& kernels, Parallel& /*parallel*/, const RowCase& c, ProbeSeed s) {
  Generator generator(s);
  const Floats x = WideArguments(generator, c);
  Floats y(x.size());
  kernels.Log(x.data(), c.m * c.width, y.data());
  return {Output("y", y)};
}

}  // namespace lockstep::kernels
