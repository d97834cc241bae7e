#ifndef LOCKSTEP_TESTS_KERNELS_CPU_SAME_BITS_H_
#define LOCKSTEP_TESTS_KERNELS_CPU_SAME_BITS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/device/worker_set.h"
#include "gtest/gtest.h"
#include "kernels/cpu/avx2_kernels.h"
#include "kernels/kernels.h"
#include "kernels/op_probe.h"
#include "kernels/select.h"

namespace lockstep::kernels {

// The first place where two calls' outputs differ, as a failure.
inline testing::AssertionResult SameBits(const OpOutputs& actual, const OpOutputs& expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " outputs, not " << expected.size();
  }
  for (size_t o = 0; o < expected.size(); ++o) {
    if (actual[o].bits.size() != expected[o].bits.size()) {
      return testing::AssertionFailure() << expected[o].name << " has another size";
    }
    for (size_t i = 0; i < expected[o].bits.size(); ++i) {
      if (actual[o].bits[i] == expected[o].bits[i]) continue;
      return testing::AssertionFailure()
             << expected[o].name << "[" << i << "] has bits " << std::hex << actual[o].bits[i]
             << ", expected " << expected[o].bits[i];
    }
  }
  return testing::AssertionSuccess();
}

// A test of the AVX2 kernels against the reference, skipped by name where the CPU lacks them.
class Avx2Test : public testing::Test {
 public:
  void SetUp() override {
    if (!CpuSupports(InstructionSet::kAvx2)) GTEST_SKIP() << "cpu lacks avx2";
    reference_ = CreateReferenceKernels();
    avx2_ = CreateAvx2Kernels();
    bf16_reference_ = CreateReferenceKernels(Profile::kBf16);
    bf16_avx2_ = CreateAvx2Kernels(Profile::kBf16);
    for (const int threads : {1, 2, 3}) {
      auto workers = WorkerSet::Create(threads);
      ASSERT_TRUE(workers.ok()) << workers.status();
      workers_.push_back(*std::move(workers));
    }
  }

 protected:
  template <typename Case>
  using Probe = OpOutputs (*)(const Kernels&, Parallel&, const Case&, ProbeSeed);

  // One operation on one case: the reference, then AVX2 on 1, 2 and 3 threads, on plain data and on
  // edge values, in both profiles. The reference runs again in between, so that state left behind
  // by either would show.
  template <typename Case>
  void ExpectReferenceBits(Probe<Case> probe, const Case& c, uint64_t seed = 1) {
    {
      SCOPED_TRACE("fp32");
      ExpectSameBits(probe, c, seed, *reference_, *avx2_);
    }
    SCOPED_TRACE("bf16");
    ExpectSameBits(probe, c, seed, *bf16_reference_, *bf16_avx2_);
  }

  std::unique_ptr<Kernels> reference_;
  std::unique_ptr<Kernels> avx2_;
  std::unique_ptr<Kernels> bf16_reference_;
  std::unique_ptr<Kernels> bf16_avx2_;
  std::vector<std::unique_ptr<WorkerSet>> workers_;

 private:
  template <typename Case>
  void ExpectSameBits(Probe<Case> probe, const Case& c, uint64_t seed, const Kernels& reference,
                      const Kernels& avx2) {
    Serial serial;
    for (const ProbeData data : {ProbeData::kPlain, ProbeData::kEdges}) {
      const ProbeSeed s = {.seed = seed, .data = data};
      SCOPED_TRACE(data == ProbeData::kPlain ? "plain data" : "edge values");
      const OpOutputs expected = probe(reference, serial, c, s);
      for (const auto& workers : workers_) {
        EXPECT_TRUE(SameBits(probe(avx2, *workers, c, s), expected))
            << workers->thread_count() << " threads";
      }
      if (data == ProbeData::kEdges) {
        EXPECT_TRUE(SameBits(probe(reference, serial, c, s), expected)) << "reference again";
      }
    }
  }
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_CPU_SAME_BITS_H_
