// Time to load a model beside what it cannot beat, measured in the same repetition: reading the
// files, and packing at memory speed. Counters, in seconds: `read` and `pack`, the two parts of the
// bound; `ratio` is load over their sum. The files are in the page cache. `cpu_ratio` is the same
// of the processor's time: on a machine that is busy with other things too, its queue is in
// `ratio`.
//
//   bazel run //tests/bench:load_bench -- "$(tools/get_smollm2)"
//
// Without a directory it writes an untrained model of SmolLM2-135M's shape (0.5 GB) first.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "core/device/buffer.h"
#include "core/device/worker_set.h"
#include "core/engine/engine.h"
#include "core/model/init_model.h"
#include "core/model/model_config.h"
#include "core/model/param_spec.h"
#include "core/model/stage_weights.h"
#include "kernels/select.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep::bench {
namespace {

constexpr int kRepetitions = 11;
constexpr int64_t kPieceBytes = 256 << 10;  // stays in a second-level cache

// Elapsed time, and that of the processor over all threads.
struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

double ClockSeconds(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Body>
Cost CostOf(Body body) {
  const Cost start = {ClockSeconds(CLOCK_MONOTONIC), ClockSeconds(CLOCK_PROCESS_CPUTIME_ID)};
  body();
  return {ClockSeconds(CLOCK_MONOTONIC) - start.seconds,
          ClockSeconds(CLOCK_PROCESS_CPUTIME_ID) - start.cpu_seconds};
}

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "load_bench: %s\n", message.c_str());
  std::exit(EXIT_FAILURE);
}

// What any loader does to one model, as fast as the machine does it.
class Bound {
 public:
  Bound(const std::string& directory, const ModelConfig& model, kernels::Profile profile)
      : threads_(static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
        workers_(*WorkerSet::Create(threads_)) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".safetensors") files_.push_back(entry.path());
    }
    for (const ParamSpec& spec : ModelParams(model)) parameters_ += spec.size();
    packed_words_ = StageWeightsBytes(model, SplitStages(model, 1)[0], profile) / 8;
    fold_ = static_cast<int64_t>(sizeof(float)) / kernels::ElementBytes(profile);
  }

  // Every byte of the files into a buffer that stays in cache.
  Cost Read() {
    return CostOf([&] {
      for (const std::string& file : files_) ReadFile(file);
    });
  }

  // Writing the masters, from cache; reading them and writing the packed weights. In memory that is
  // as fresh as a loader's.
  Cost Pack() {
    const std::vector<uint64_t> source(kPieceBytes / 8, 1);
    Buffer<uint64_t> masters;
    Buffer<uint64_t> packed;
    return CostOf([&] {
      masters = Buffer<uint64_t>(parameters_ / 2);
      packed = Buffer<uint64_t>(packed_words_);
      const int64_t piece = static_cast<int64_t>(source.size());
      workers_->For(masters.size() / piece, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          std::copy_n(source.data(), piece, masters.data() + i * piece);
        }
      });
      workers_->For(
          std::min(packed.size(), masters.size() / fold_), 1, [&](int64_t begin, int64_t end) {
            if (fold_ == 1) {
              std::copy(masters.data() + begin, masters.data() + end, packed.data() + begin);
            } else {
              for (int64_t i = begin; i < end; ++i) {
                packed[i] = masters[2 * i] ^ masters[2 * i + 1];
              }
            }
          });
      benchmark::DoNotOptimize(packed.data());
      benchmark::ClobberMemory();
    });
  }

 private:
  void ReadFile(const std::string& file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) Fail(file + ": cannot open");
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file));
    workers_->For((bytes + kPieceBytes - 1) / kPieceBytes, 1, [&](int64_t begin, int64_t end) {
      std::vector<char> piece(kPieceBytes);
      for (int64_t i = begin; i < end; ++i) {
        if (::pread(descriptor, piece.data(), piece.size(), i * kPieceBytes) < 0) {
          Fail(file + ": cannot read");
        }
      }
    });
    ::close(descriptor);
  }

  const int threads_;
  const std::unique_ptr<WorkerSet> workers_;
  std::vector<std::string> files_;
  int64_t parameters_ = 0;
  int64_t packed_words_ = 0;
  int64_t fold_ = 1;  // words of masters that become one of packed weights
};

void Load(benchmark::State& state, const std::string& directory, kernels::Profile profile) {
  const auto model = ReadModelConfig(directory);
  if (!model.ok()) Fail(model.status().ToString());
  Bound bound(directory, *model, profile);
  bound.Read();  // into the page cache
  EngineConfig config;
  config.model_directory = directory;
  config.profile = profile;
  for (auto _ : state) {
    const Cost read = bound.Read();
    const Cost pack = bound.Pack();
    absl::StatusOr<std::unique_ptr<Engine>> engine;
    const Cost load = CostOf([&] { engine = Engine::Create(config); });
    if (!engine.ok()) Fail(engine.status().ToString());
    state.SetIterationTime(load.seconds);
    state.counters["read"] = read.seconds;
    state.counters["pack"] = pack.seconds;
    state.counters["ratio"] = load.seconds / (read.seconds + pack.seconds);
    state.counters["cpu_ratio"] = load.cpu_seconds / (read.cpu_seconds + pack.cpu_seconds);
  }
}

void Run(const std::string& directory) {
  for (const kernels::Profile profile : {kernels::Profile::kFp32, kernels::Profile::kBf16}) {
    const std::string name = "Load/" + std::string(kernels::ProfileName(profile));
    benchmark::RegisterBenchmark(name.c_str(), Load, directory, profile)
        ->UseManualTime()
        ->Unit(benchmark::kSecond)
        ->Iterations(1)
        ->Repetitions(kRepetitions)
        ->DisplayAggregatesOnly();
  }
  benchmark::RunSpecifiedBenchmarks();
}

void RunSynthetic() {
  const TempDirectory made;
  const std::string directory = made.PathOf("model");
  std::fprintf(stderr, "writing a model of SmolLM2-135M's shape to %s\n", directory.c_str());
  const absl::Status written = InitModel(directory, SmolLm2Shape(), /*seed=*/1);
  if (!written.ok()) Fail(written.ToString());
  Run(directory);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: load_bench [--benchmark_...] [model directory]\n");
    return EXIT_FAILURE;
  }
  if (argc == 2) {
    lockstep::bench::Run(argv[1]);
  } else {
    lockstep::bench::RunSynthetic();
  }
  return EXIT_SUCCESS;
}
