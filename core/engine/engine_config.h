#ifndef LOCKSTEP_CORE_ENGINE_ENGINE_CONFIG_H_
#define LOCKSTEP_CORE_ENGINE_ENGINE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/select.h"

namespace lockstep {

// How an engine is set up; checked by Engine::Create. Meanings and units are those of the fields of
// the same name in proto/lockstep/v1/config.proto; 0 means "choose" where it does there.
struct EngineConfig {
  std::string model_directory;
  std::string export_root;
  int32_t stages = 1;
  int32_t threads = 0;
  kernels::Profile profile = kernels::Profile::kFp32;
  std::optional<kernels::InstructionSet> instruction_set;
  int32_t queue_depth_max = 1024;
  int32_t running_sequences_max = 64;
  int32_t step_tokens_max = 512;
  int32_t kv_page_size = 16;
  int32_t kv_page_count = 0;
  int32_t prefill_chunk_max = 0;
  int32_t micro_batch_size = 8;
  int32_t data_max = 4096;
  int32_t stored_answers_max = 64;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_ENGINE_ENGINE_CONFIG_H_
