// Speed of the selected kernels on SmolLM2-135M's shapes, beside the machine's bounds in the same
// run. Counters: GFLOPS beside fma_peak (of AVX2, whichever set is selected), or GBps beside
// read_loop; time is wall time.
//
//   bazel run //tests/bench:kernels_bench

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/device/worker_set.h"
#include "kernels/kernels.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/bench/machine_peak.h"

namespace lockstep::bench {
namespace {

using kernels::Kernels;
using kernels::PackedBytes;
using kernels::PackedMatrix;

// Uninitialised tensors would be zero pages that share one physical page.
std::vector<float> Tensor(int64_t n) {
  std::vector<float> values(n);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
  return values;
}

// Kernels and threads of one benchmark.
struct Machine {
  explicit Machine(int threads)
      : threads(threads),
        workers(*WorkerSet::Create(threads)),
        kernels(std::move(kernels::SelectKernels(*workers, std::nullopt)->kernels)) {}

  int threads;
  std::unique_ptr<WorkerSet> workers;
  std::unique_ptr<Kernels> kernels;
};

void ReportFlops(benchmark::State& state, Machine& machine, double flops) {
  state.counters["GFLOPS"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["fma_peak"] = FmaPeakGflops(*machine.workers, machine.threads);
}

void ReportBytes(benchmark::State& state, Machine& machine, double bytes,
                 const std::vector<float>& read) {
  state.counters["GBps"] = benchmark::Counter(
      bytes * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["read_loop"] =
      ReadGigabytesPerSecond(*machine.workers, read.data(), static_cast<int64_t>(read.size()));
}

// Arguments of the products: k, n, m, threads.
struct Product {
  explicit Product(const benchmark::State& state)
      : k(state.range(0)),
        n(state.range(1)),
        m(state.range(2)),
        machine(static_cast<int>(state.range(3))),
        panels(Tensor(PackedBytes(kernels::Profile::kFp32, n, k) / 4)),
        x(Tensor(m * k)),
        y(Tensor(m * n)) {}

  PackedMatrix w() const { return {panels.data(), n, k}; }
  double flops() const { return 2.0 * static_cast<double>(m) * n * k; }
  void Report(benchmark::State& state) {
    ReportFlops(state, machine, flops());
    if (m == 1) ReportBytes(state, machine, 4.0 * n * k, panels);
  }

  int64_t k;
  int64_t n;
  int64_t m;
  Machine machine;
  std::vector<float> panels;
  std::vector<float> x;
  std::vector<float> y;
};

void MatMul(benchmark::State& state) {
  Product p(state);
  for (auto _ : state) {
    p.machine.kernels->MatMul(*p.machine.workers, p.x.data(), p.m, p.w(), p.y.data());
  }
  p.Report(state);
}

void MatMulBackwardInput(benchmark::State& state) {
  Product p(state);
  for (auto _ : state) {
    p.machine.kernels->MatMulBackwardInput(*p.machine.workers, p.y.data(), p.m, p.w(), p.x.data());
  }
  p.Report(state);
}

// Data of 128 tokens.
void MatMulBackwardWeight(benchmark::State& state) {
  Product p(state);
  std::vector<int64_t> begins = {0};
  while (begins.back() < p.m) begins.push_back(std::min(begins.back() + 128, p.m));
  std::vector<float> dw(p.n * p.k, 0.0f);
  for (auto _ : state) {
    p.machine.kernels->MatMulBackwardWeight(*p.machine.workers, p.y.data(), p.x.data(), begins, p.n,
                                            p.k, dw.data());
  }
  p.Report(state);
}

void Products(benchmark::internal::Benchmark* b) {
  b->ArgNames({"k", "n", "m", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t threads : {1, 2}) {
    for (const auto& [k, n] : {std::pair{576, 1536}, {1536, 576}, {576, 49152}}) {
      for (const int64_t m : {1, 16, 128, 512}) b->Args({k, n, m, threads});
    }
  }
}
BENCHMARK(MatMul)->Apply(Products);
BENCHMARK(MatMulBackwardInput)->Apply(Products);

void WeightProducts(benchmark::internal::Benchmark* b) {
  b->ArgNames({"k", "n", "m", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t threads : {1, 2}) {
    for (const auto& [k, n] : {std::pair{576, 1536}, {1536, 576}}) {
      for (const int64_t m : {16, 128, 512}) b->Args({k, n, m, threads});
    }
    b->Args({576, 49152, 128, threads});
  }
}
BENCHMARK(MatMulBackwardWeight)->Apply(WeightProducts);

// One sequence of `tokens` positions in pages of 16; 9 query heads, 3 KV heads of 64.
struct AttentionCall {
  explicit AttentionCall(const benchmark::State& state)
      : tokens(state.range(0)),
        machine(static_cast<int>(state.range(1))),
        pages(tokens / kPageSize),
        data(Tensor(tokens * 2 * kKvHeads * kHeadDim)),
        q(Tensor(tokens * Stride())) {
    std::iota(pages.begin(), pages.end(), 0);
  }

  static constexpr int64_t kPageSize = 16;
  static constexpr int64_t kQHeads = 9;
  static constexpr int64_t kKvHeads = 3;
  static constexpr int64_t kHeadDim = 64;
  static constexpr int64_t Stride() { return (kQHeads + 2 * kKvHeads) * kHeadDim; }

  kernels::AttentionShape shape() const { return {kQHeads, kKvHeads, kHeadDim, 0.125f}; }
  kernels::KvPages kv() {
    return {data.data(), 2 * kKvHeads * kHeadDim * kPageSize, kPageSize, kKvHeads, kHeadDim};
  }
  // Multiply-adds of one product of queries and the keys they see.
  double pairs() const {
    return 0.5 * static_cast<double>(tokens) * (tokens + 1) * kQHeads * kHeadDim;
  }

  int64_t tokens;
  Machine machine;
  std::vector<int32_t> pages;
  std::vector<float> data;
  std::vector<float> q;
};

void AttentionPrefill(benchmark::State& state) {
  AttentionCall call(state);
  std::vector<float> out(call.tokens * call.kQHeads * call.kHeadDim);
  const kernels::SequenceRows rows = {0, call.tokens, 0, call.pages};
  for (auto _ : state) {
    call.machine.kernels->Attention(*call.machine.workers, call.shape(), call.q.data(),
                                    call.Stride(), {&rows, 1}, call.kv(), out.data(), nullptr);
  }
  ReportFlops(state, call.machine, 2 * 2 * call.pairs());
}

void AttentionDecode(benchmark::State& state) {
  AttentionCall call(state);
  std::vector<float> out(call.kQHeads * call.kHeadDim);
  const kernels::SequenceRows rows = {0, 1, call.tokens - 1, call.pages};
  for (auto _ : state) {
    call.machine.kernels->Attention(*call.machine.workers, call.shape(), call.q.data(),
                                    call.Stride(), {&rows, 1}, call.kv(), out.data(), nullptr);
  }
  ReportBytes(state, call.machine, 4.0 * static_cast<double>(call.data.size()), call.data);
}

void AttentionBackward(benchmark::State& state) {
  AttentionCall call(state);
  const int64_t width = call.kQHeads * call.kHeadDim;
  std::vector<float> out(call.tokens * width);
  std::vector<float> log_sum_exp(call.tokens * call.kQHeads);
  const std::vector<float> dout = Tensor(call.tokens * width);
  std::vector<float> dqkv(call.tokens * call.Stride());
  const kernels::SequenceRows rows = {0, call.tokens, 0, call.pages};
  call.machine.kernels->Attention(*call.machine.workers, call.shape(), call.q.data(), call.Stride(),
                                  {&rows, 1}, call.kv(), out.data(), log_sum_exp.data());
  for (auto _ : state) {
    call.machine.kernels->AttentionBackward(
        *call.machine.workers, call.shape(), call.q.data(), call.Stride(), {&rows, 1}, call.kv(),
        out.data(), log_sum_exp.data(), dout.data(), dqkv.data(), call.Stride());
  }
  ReportFlops(state, call.machine, 2 * 5 * call.pairs());
}

void Attentions(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t threads : {1, 2}) {
    for (const int64_t tokens : {128, 1024}) b->Args({tokens, threads});
  }
}
BENCHMARK(AttentionPrefill)->Apply(Attentions);
BENCHMARK(AttentionDecode)->Apply(Attentions);
BENCHMARK(AttentionBackward)->Apply(Attentions);

// Operations that pass over memory: a vocabulary of logits, a tensor of weights.
void LogProb(benchmark::State& state) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kVocabulary = 49152;
  Machine machine(static_cast<int>(state.range(0)));
  const std::vector<float> logits = Tensor(kRows * kVocabulary);
  const std::vector<float> temperature(kRows, 1.0f);
  const std::vector<int32_t> target(kRows, 7);
  std::vector<float> outputs(3 * kRows);
  for (auto _ : state) {
    machine.kernels->LogProb(*machine.workers, logits.data(), kRows, kVocabulary,
                             temperature.data(), target.data(), outputs.data(),
                             outputs.data() + kRows, outputs.data() + 2 * kRows);
  }
  ReportBytes(state, machine, 4.0 * static_cast<double>(logits.size()), logits);
}
BENCHMARK(LogProb)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void AdamW(benchmark::State& state) {
  constexpr int64_t kElements = 1536 * 576 * 8;
  Machine machine(static_cast<int>(state.range(0)));
  const std::vector<float> gradient = Tensor(kElements);
  std::vector<float> master = Tensor(kElements);
  std::vector<float> moment1(kElements, 0.0f);
  std::vector<float> moment2(kElements, 0.0f);
  const kernels::AdamWScalars scalars = {.learning_rate = 1e-4f,
                                         .beta1 = 0.9f,
                                         .one_minus_beta1 = 0.1f,
                                         .beta2 = 0.95f,
                                         .one_minus_beta2 = 0.05f,
                                         .inverse_correction1 = 10.0f,
                                         .inverse_correction2 = 20.0f,
                                         .epsilon = 1e-8f};
  for (auto _ : state) {
    machine.kernels->AdamW(*machine.workers, scalars, kElements, gradient.data(), master.data(),
                           moment1.data(), moment2.data());
  }
  ReportBytes(state, machine, 7 * 4.0 * kElements, gradient);  // four reads, three writes
}
BENCHMARK(AdamW)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void Digest(benchmark::State& state) {
  Machine machine(static_cast<int>(state.range(0)));
  const std::vector<float> x = Tensor(1536 * 576 * 8);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        machine.kernels->Digest(*machine.workers, x.data(), static_cast<int64_t>(x.size()), 0));
  }
  ReportBytes(state, machine, 4.0 * static_cast<double>(x.size()), x);
}
BENCHMARK(Digest)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  lockstep::kernels::Serial serial;
  const auto selected = lockstep::kernels::SelectKernels(serial, std::nullopt);
  if (!selected.ok() || !selected->note.empty()) {
    std::fprintf(stderr, "kernels_bench: %s\n",
                 selected.ok() ? selected->note.c_str() : selected.status().ToString().c_str());
    return EXIT_FAILURE;
  }
  if (!lockstep::kernels::CpuSupports(lockstep::kernels::InstructionSet::kAvx2)) {
    std::fprintf(stderr, "kernels_bench: needs AVX2, in which it measures the machine's bounds\n");
    return EXIT_FAILURE;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
