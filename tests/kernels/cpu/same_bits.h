#ifndef LOCKSTEP_TESTS_KERNELS_CPU_SAME_BITS_H_
#define LOCKSTEP_TESTS_KERNELS_CPU_SAME_BITS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/worker_set.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "kernels/op_probe.h"
#include "kernels/serial.h"
#include "tests/kernels/cpu/backends_under_test.h"

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

// A test of the backends that it is linked with (backends_under_test.h) against the reference.
class BackendTest : public testing::Test {
 public:
  void SetUp() override {
    backends_ = BackendsUnderTest();
    ASSERT_FALSE(backends_.empty());
    for (const int threads : {1, 2, 3}) {
      auto workers = WorkerSet::Create(threads);
      ASSERT_TRUE(workers.ok()) << workers.status();
      workers_.push_back(*std::move(workers));
    }
  }

 protected:
  template <typename Case>
  using Probe = OpOutputs (*)(const Kernels&, Parallel&, const Case&, ProbeSeed);

  // One operation on one case, on plain data and on edge values: the reference of both profiles,
  // and every backend with its profile's on 1, 2 and 3 threads.
  template <typename Case>
  void ExpectReferenceBits(Probe<Case> probe, const Case& c, uint64_t seed = 1) {
    for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
      const std::unique_ptr<Kernels> reference = CreateReferenceKernels(profile);
      for (const ProbeData data : {ProbeData::kPlain, ProbeData::kEdges}) {
        const ProbeSeed s = {.seed = seed, .data = data};
        SCOPED_TRACE(std::string(profile == Profile::kFp32 ? "fp32" : "bf16") +
                     (data == ProbeData::kPlain ? ", plain data" : ", edge values"));
        ExpectSameBits(probe, c, s, *reference);
      }
    }
  }

  template <typename Body>
  void ForEachBackend(Body body) {
    for (const auto& backend : backends_) {
      SCOPED_TRACE(std::string(backend->name()) +
                   (backend->profile() == Profile::kFp32 ? ", fp32" : ", bf16"));
      body(*backend);
    }
  }

  std::vector<std::unique_ptr<WorkerSet>> workers_;

 private:
  template <typename Case>
  void ExpectSameBits(Probe<Case> probe, const Case& c, ProbeSeed s, const Kernels& reference) {
    Serial serial;
    const OpOutputs expected = probe(reference, serial, c, s);
    for (const auto& backend : backends_) {
      if (backend->profile() != reference.profile()) continue;
      for (const auto& workers : workers_) {
        EXPECT_TRUE(SameBits(probe(*backend, *workers, c, s), expected))
            << backend->name() << ", " << workers->thread_count() << " threads";
      }
    }
    // State left behind by a backend would show.
    if (s.data == ProbeData::kEdges) {
      EXPECT_TRUE(SameBits(probe(reference, serial, c, s), expected)) << "reference again";
    }
  }

  std::vector<std::unique_ptr<Kernels>> backends_;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_CPU_SAME_BITS_H_
