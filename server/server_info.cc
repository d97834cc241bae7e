#include "server/server_info.h"

#include "core/base/check.h"
#include "server/translate.h"
#include "server/version.h"

namespace lockstep {
namespace {

constexpr char kAutomatic[] = "auto";

void FillMemoryPlan(const MemoryPlan& plan, v1::MemoryPlan& out) {
  out.set_masters(plan.masters);
  out.set_moments(plan.moments);
  out.set_gradients(plan.gradients);
  out.set_weights(plan.weights);
  out.set_kv_pages(plan.kv_pages);
  out.set_rope_tables(plan.rope_tables);
  out.set_head(plan.head);
  out.set_at_start(plan.at_start());
  out.set_step_activations(plan.step_activations);
  out.set_next_weights(plan.next_weights);
  out.set_micro_batch_rows(plan.micro_batch_rows);
  out.set_micro_batch_bytes(plan.micro_batch_bytes);
}

void FillModelInfo(const EngineInfo& info, v1::ModelInfo& out) {
  out.set_architecture(info.model.architecture);
  out.set_vocab_size(info.model.vocab_size);
  out.set_hidden_size(info.model.hidden_size);
  out.set_layer_count(info.model.layer_count);
  out.set_head_count(info.model.head_count);
  out.set_kv_head_count(info.model.kv_head_count);
  out.set_head_dim(info.model.head_dim);
  out.set_intermediate_size(info.model.intermediate_size);
  out.set_context_length_max(info.model.context_length_max);
  out.set_parameter_count(info.parameter_count);
  out.set_tie_word_embeddings(info.model.tie_word_embeddings);
  out.mutable_eos_token_ids()->Add(info.model.eos_token_ids.begin(),
                                   info.model.eos_token_ids.end());
}

void OverrideWithEngine(const EngineConfig& engine, v1::ServerConfig& out) {
  out.set_stages(engine.stages);
  out.set_threads(engine.threads);
  out.set_queue_depth_max(engine.queue_depth_max);
  out.set_running_sequences_max(engine.running_sequences_max);
  out.set_step_tokens_max(engine.step_tokens_max);
  out.set_kv_page_size(engine.kv_page_size);
  out.set_kv_page_count(engine.kv_page_count);
  out.set_prefill_chunk_max(engine.prefill_chunk_max);
  out.set_micro_batch_size(engine.micro_batch_size);
  out.set_data_max(engine.data_max);
  out.set_stored_answers_max(engine.stored_answers_max);
}

}  // namespace

EngineConfig ToEngineConfig(const v1::ServerConfig& config) {
  EngineConfig engine;
  engine.model_directory = config.model();
  engine.export_root = config.export_root();
  engine.stages = config.stages();
  engine.threads = config.threads();
  const auto profile = kernels::ParseProfile(config.profile());
  LOCKSTEP_CHECK(profile.ok()) << profile.status();
  engine.profile = *profile;
  if (config.instruction_set() != kAutomatic) {
    const auto forced = kernels::ParseInstructionSet(config.instruction_set());
    LOCKSTEP_CHECK(forced.ok()) << forced.status();
    engine.instruction_set = *forced;
  }
  engine.queue_depth_max = config.queue_depth_max();
  engine.running_sequences_max = config.running_sequences_max();
  engine.step_tokens_max = config.step_tokens_max();
  engine.kv_page_size = config.kv_page_size();
  engine.kv_page_count = config.kv_page_count();
  engine.prefill_chunk_max = config.prefill_chunk_max();
  engine.micro_batch_size = config.micro_batch_size();
  engine.data_max = config.data_max();
  engine.stored_answers_max = config.stored_answers_max();
  return engine;
}

void FillServerInfo(const EngineInfo& info, const Settings& settings, const std::string& listen,
                    v1::GetServerInfoResponse& out) {
  out.set_server_version(kServerVersion);
  FillModelInfo(info, *out.mutable_model());
  translate::ToProto(info.weights, *out.mutable_weights());
  out.set_weights_digest(info.weights_digest);
  out.set_moments_digest(info.moments_digest);
  out.set_instruction_set(info.instruction_set);
  out.set_instruction_set_note(info.instruction_set_note);

  *out.mutable_config() = settings.config;
  OverrideWithEngine(info.config, *out.mutable_config());
  out.mutable_config()->set_listen(listen);
  out.mutable_config()->set_instruction_set(info.instruction_set);
  out.mutable_config_sources()->insert(settings.sources.begin(), settings.sources.end());

  out.set_running_sequences(info.running_sequences);
  out.set_queued_requests(info.queued_requests);
  out.set_kv_pages_in_use(info.kv_pages_in_use);
  out.set_kv_pages_total(info.kv_pages_total);
  out.set_pinned_weight_versions(info.pinned_weight_versions);
  FillMemoryPlan(info.memory, *out.mutable_memory());
}

namespace translate {

absl::StatusOr<std::string> FromProto(const v1::ExportModelRequest& request) {
  return request.directory();
}

void ToProto(const ExportResult& result, v1::ExportModelResponse& out) {
  out.set_path(result.path);
  ToProto(result.weights, *out.mutable_weights());
  out.set_bytes(result.bytes);
}

}  // namespace translate

}  // namespace lockstep
