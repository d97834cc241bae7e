// Goal: settings reach the engine, and GetServerInfo tells what is in force and where it came from.
#include "server/server_info.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(ServerInfoTest, EverySettingOfTheEngineIsPassedOn) {
  v1::ServerConfig config;
  config.set_model("dir");
  config.set_export_root("exports");
  config.set_stages(1);
  config.set_threads(2);
  config.set_instruction_set("avx2");
  config.set_profile("bf16");
  config.set_queue_depth_max(3);
  config.set_running_sequences_max(4);
  config.set_step_tokens_max(5);
  config.set_kv_page_size(6);
  config.set_kv_page_count(7);
  config.set_prefill_chunk_max(8);
  config.set_micro_batch_size(9);
  config.set_data_max(10);
  config.set_stored_answers_max(11);
  EngineConfig engine = ToEngineConfig(config);
  EXPECT_EQ(engine.model_directory, "dir");
  EXPECT_EQ(engine.export_root, "exports");
  EXPECT_EQ(engine.stages, 1);
  EXPECT_EQ(engine.threads, 2);
  EXPECT_EQ(engine.instruction_set, kernels::InstructionSet::kAvx2);
  EXPECT_EQ(engine.profile, kernels::Profile::kBf16);
  EXPECT_EQ(engine.queue_depth_max, 3);
  EXPECT_EQ(engine.running_sequences_max, 4);
  EXPECT_EQ(engine.step_tokens_max, 5);
  EXPECT_EQ(engine.kv_page_size, 6);
  EXPECT_EQ(engine.kv_page_count, 7);
  EXPECT_EQ(engine.prefill_chunk_max, 8);
  EXPECT_EQ(engine.micro_batch_size, 9);
  EXPECT_EQ(engine.data_max, 10);
  EXPECT_EQ(engine.stored_answers_max, 11);

  config.set_instruction_set("reference");
  EXPECT_EQ(ToEngineConfig(config).instruction_set, kernels::InstructionSet::kReference);
  config.set_instruction_set("auto");
  EXPECT_FALSE(ToEngineConfig(config).instruction_set.has_value());
}

TEST(ServerInfoTest, DefaultsOfSettingsAndEngineAgree) {
  const EngineConfig from_settings = ToEngineConfig(DefaultServerConfig());
  const EngineConfig own;
  EXPECT_EQ(from_settings.stages, own.stages);
  EXPECT_EQ(from_settings.threads, own.threads);
  EXPECT_EQ(from_settings.profile, own.profile);
  EXPECT_EQ(from_settings.queue_depth_max, own.queue_depth_max);
  EXPECT_EQ(from_settings.running_sequences_max, own.running_sequences_max);
  EXPECT_EQ(from_settings.step_tokens_max, own.step_tokens_max);
  EXPECT_EQ(from_settings.kv_page_size, own.kv_page_size);
  EXPECT_EQ(from_settings.kv_page_count, own.kv_page_count);
  EXPECT_EQ(from_settings.prefill_chunk_max, own.prefill_chunk_max);
  EXPECT_EQ(from_settings.micro_batch_size, own.micro_batch_size);
  EXPECT_EQ(from_settings.data_max, own.data_max);
  EXPECT_EQ(from_settings.stored_answers_max, own.stored_answers_max);
}

TEST(ServerInfoTest, TellsWhatIsInForce) {
  EngineInfo info;
  info.model = {.architecture = "LlamaForCausalLM",
                .model_type = "llama",
                .vocab_size = 1,
                .hidden_size = 2,
                .intermediate_size = 3,
                .layer_count = 4,
                .head_count = 5,
                .kv_head_count = 6,
                .head_dim = 7,
                .context_length_max = 8,
                .rope_scaling = std::nullopt,
                .tie_word_embeddings = true,
                .eos_token_ids = {9, 10}};
  info.parameter_count = 11;
  info.config.threads = 12;
  info.config.kv_page_count = 13;
  info.config.prefill_chunk_max = 14;
  info.instruction_set = "reference";
  info.instruction_set_note = "avx2 failed";
  info.weights.weight_version = 15;
  info.weights_digest = "w";
  info.moments_digest = "m";
  info.running_sequences = 16;
  info.queued_requests = 17;
  info.kv_pages_in_use = 18;
  info.kv_pages_total = 19;
  info.pinned_weight_versions = 20;
  info.memory = {.masters = 1 << 0,
                 .moments = 1 << 1,
                 .gradients = 1 << 2,
                 .weights = 1 << 3,
                 .kv_pages = 1 << 4,
                 .rope_tables = 1 << 5,
                 .head = 1 << 6,
                 .step_activations = 1 << 7,
                 .next_weights = 1 << 8,
                 .micro_batch_rows = 1 << 9,
                 .micro_batch_bytes = 1 << 10};
  Settings settings{.config = DefaultServerConfig(), .sources = {{"threads", "default"}}};
  settings.config.set_model("dir");

  v1::GetServerInfoResponse out;
  FillServerInfo(info, settings, "127.0.0.1:4242", out);
  EXPECT_FALSE(out.server_version().empty());
  EXPECT_EQ(out.model().architecture(), "LlamaForCausalLM");
  EXPECT_EQ(out.model().vocab_size(), 1);
  EXPECT_EQ(out.model().hidden_size(), 2);
  EXPECT_EQ(out.model().intermediate_size(), 3);
  EXPECT_EQ(out.model().layer_count(), 4);
  EXPECT_EQ(out.model().head_count(), 5);
  EXPECT_EQ(out.model().kv_head_count(), 6);
  EXPECT_EQ(out.model().head_dim(), 7);
  EXPECT_EQ(out.model().context_length_max(), 8);
  EXPECT_TRUE(out.model().tie_word_embeddings());
  EXPECT_EQ(out.model().eos_token_ids_size(), 2);
  EXPECT_EQ(out.model().parameter_count(), 11);
  EXPECT_EQ(out.config().model(), "dir");
  EXPECT_EQ(out.config().threads(), 12) << "what was chosen, not 0";
  EXPECT_EQ(out.config().kv_page_count(), 13);
  EXPECT_EQ(out.config().prefill_chunk_max(), 14);
  EXPECT_EQ(out.config().instruction_set(), "reference");
  EXPECT_EQ(out.config().listen(), "127.0.0.1:4242");
  EXPECT_EQ(out.config_sources().at("threads"), "default");
  EXPECT_EQ(out.instruction_set_note(), "avx2 failed");
  EXPECT_EQ(out.weights().weight_version(), 15u);
  EXPECT_EQ(out.weights_digest(), "w");
  EXPECT_EQ(out.moments_digest(), "m");
  EXPECT_EQ(out.memory().masters(), 1 << 0);
  EXPECT_EQ(out.memory().moments(), 1 << 1);
  EXPECT_EQ(out.memory().gradients(), 1 << 2);
  EXPECT_EQ(out.memory().weights(), 1 << 3);
  EXPECT_EQ(out.memory().kv_pages(), 1 << 4);
  EXPECT_EQ(out.memory().rope_tables(), 1 << 5);
  EXPECT_EQ(out.memory().head(), 1 << 6);
  EXPECT_EQ(out.memory().at_start(), (1 << 7) - 1);
  EXPECT_EQ(out.memory().step_activations(), 1 << 7);
  EXPECT_EQ(out.memory().next_weights(), 1 << 8);
  EXPECT_EQ(out.memory().micro_batch_rows(), 1 << 9);
  EXPECT_EQ(out.memory().micro_batch_bytes(), 1 << 10);
  EXPECT_EQ(out.running_sequences(), 16);
  EXPECT_EQ(out.queued_requests(), 17);
  EXPECT_EQ(out.kv_pages_in_use(), 18);
  EXPECT_EQ(out.kv_pages_total(), 19);
  EXPECT_EQ(out.pinned_weight_versions(), 20);
}

}  // namespace
}  // namespace lockstep
