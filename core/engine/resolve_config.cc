#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/engine/engine_core.h"
#include "core/engine/memory_plan.h"

namespace lockstep {
namespace {

// KV memory that a server takes unasked.
constexpr int64_t kDefaultKvBytesMax = int64_t{2} << 30;

absl::Status CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be between ", low, " and ", high, ", is ", value));
}

// Enough pages for every running sequence at full context, within kDefaultKvBytesMax, and always
// for one sequence.
int64_t DefaultPageCount(const EngineConfig& config, const ModelConfig& model) {
  const int64_t per_sequence = Batcher::PagesFor(model.context_length_max, config.kv_page_size);
  const int64_t wanted = per_sequence * config.running_sequences_max;
  return std::max(per_sequence, std::min(wanted, kDefaultKvBytesMax / KvPageBytes(config, model)));
}

// Weights, optimizer state and pages are all reserved at start and take up memory as they are first
// used, where running out of it would end the process.
absl::Status CheckFitsMemory(const EngineConfig& config, const ModelConfig& model) {
  const int64_t memory =
      int64_t{sysconf(_SC_PHYS_PAGES)} * static_cast<int64_t>(sysconf(_SC_PAGE_SIZE));
  const MemoryPlan plan = PlanMemory(config, model);
  if (plan.at_start() <= memory) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "kv_page_count: %d: the machine's memory of %.2f GiB does not hold %s", config.kv_page_count,
      static_cast<double>(memory) / (int64_t{1} << 30), Describe(plan)));
}

}  // namespace

absl::StatusOr<EngineConfig> ResolveConfig(const EngineConfig& given, const ModelConfig& model) {
  EngineConfig config = given;
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("stages", config.stages, 1, model.layer_count));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("threads", config.threads, 0, 1024));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("queue_depth_max", config.queue_depth_max, 1, 1 << 20));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckRange("running_sequences_max", config.running_sequences_max, 1, 1 << 16));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("step_tokens_max", config.step_tokens_max, 1, 1 << 20));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("kv_page_count", config.kv_page_count, 0, 1 << 30));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckRange("prefill_chunk_max", config.prefill_chunk_max, 0, config.step_tokens_max));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("micro_batch_size", config.micro_batch_size, 1, 1 << 20));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("data_max", config.data_max, 1, 1 << 20));
  LOCKSTEP_RETURN_IF_ERROR(CheckRange("stored_answers_max", config.stored_answers_max, 1, 1 << 20));
  const int32_t page = config.kv_page_size;
  if (page < 8 || page > 128 || 128 % page != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_page_size: must be 8, 16, 32, 64 or 128, is ", page));
  }

  if (config.threads == 0) {
    config.threads = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  }
  config.threads = std::max(config.threads, config.stages);
  if (config.prefill_chunk_max == 0) config.prefill_chunk_max = config.step_tokens_max;
  if (config.kv_page_count == 0) {
    config.kv_page_count = static_cast<int32_t>(DefaultPageCount(config, model));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckFitsMemory(config, model));
  return config;
}

absl::StatusOr<std::string> ResolveExportPath(const std::string& root,
                                              const std::string& directory) {
  namespace fs = std::filesystem;
  if (root.empty()) {
    return absl::FailedPreconditionError(
        "the server was started without export_root: ExportModel is off");
  }
  const fs::path relative(directory);
  const bool climbs = std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end();
  if (directory.empty() || relative.is_absolute() || climbs) {
    return absl::InvalidArgumentError(
        absl::StrCat("directory: must be a relative path without \"..\", is \"", directory, "\""));
  }
  std::error_code error;
  const fs::path base = fs::canonical(root, error);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat("export_root ", root, ": ", error.message()));
  }
  const fs::path target = fs::weakly_canonical(base / relative, error);
  const auto [base_end, target_at] =
      std::mismatch(base.begin(), base.end(), target.begin(), target.end());
  if (error || base_end != base.end() || target_at == target.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("directory: \"", directory, "\" is not below the export root"));
  }
  if (fs::exists(target, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat("directory: \"", directory, "\" exists already below the export root"));
  }
  return target.string();
}

}  // namespace lockstep
