// Prints, as one JSON object, what this machine gives right now: the bounds that tools/bench prints
// beside what it measures. A set that the CPU lacks is left out.
//
//   print_machine_peak THREADS READ_BYTES

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "core/device/worker_set.h"
#include "kernels/select.h"
#include "nlohmann/json.hpp"
#include "tests/bench/machine_peak.h"
#include "tests/bench/machine_peak_avx512.h"

namespace lockstep::bench {
namespace {

nlohmann::json MachinePeak(WorkerSet& workers, int64_t read_bytes) {
  using kernels::CpuSupports;
  using kernels::InstructionSet;
  const int threads = workers.thread_count();
  nlohmann::json peak = {{"threads", threads}, {"read_bytes", read_bytes}};
  // Not zero: zero pages that were never written would share one physical page.
  const std::vector<float> data(read_bytes / sizeof(float), 1.0f);
  if (CpuSupports(InstructionSet::kAvx2)) {
    peak["fma_gflops"]["avx2"] = FmaPeakGflops(workers, threads);
    peak["read_gigabytes_per_second"] =
        ReadGigabytesPerSecond(workers, data.data(), static_cast<int64_t>(data.size()));
  }
  if (CpuSupports(InstructionSet::kAvx512)) {
    peak["fma_gflops"]["avx512"] = FmaPeakGflopsAvx512(workers, threads);
  }
  if (CpuSupports(InstructionSet::kAvx512Bf16)) {
    peak["bf16_dot_gflops"] = Bf16DotPeakGflops(workers, threads);
  }
  return peak;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const int threads = argc == 3 ? std::atoi(argv[1]) : 0;
  const int64_t read_bytes = argc == 3 ? std::atoll(argv[2]) : 0;
  if (threads < 1 || read_bytes < 1) {
    std::cerr << "usage: print_machine_peak THREADS READ_BYTES\n";
    return 2;
  }
  auto workers = lockstep::WorkerSet::Create(threads);
  if (!workers.ok()) {
    std::cerr << workers.status() << "\n";
    return 1;
  }
  std::cout << lockstep::bench::MachinePeak(**workers, read_bytes) << std::endl;
  return 0;
}
