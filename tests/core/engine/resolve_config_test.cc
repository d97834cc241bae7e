// Goal: every setting has a range that is named when it is left, zeros become what they stand for,
// and an export stays below its root. Method: one field at a time; real directories with links.
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/engine_core.h"
#include "gtest/gtest.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

ModelConfig Model() { return TinyModelConfig(/*tied=*/true); }  // 3 layers, context 512

TEST(ResolveConfigTest, ZerosBecomeChoices) {
  const absl::StatusOr<EngineConfig> config = ResolveConfig({}, Model());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->threads,
            static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency())));
  EXPECT_EQ(config->prefill_chunk_max, config->step_tokens_max);
  // 64 sequences of 512 positions in pages of 16.
  EXPECT_EQ(config->kv_page_count, 64 * 32);
}

TEST(ResolveConfigTest, WhatIsGivenStays) {
  EngineConfig given;
  given.stages = 3;
  given.threads = 5;
  given.prefill_chunk_max = 7;
  given.kv_page_count = 11;
  given.kv_page_size = 128;
  const absl::StatusOr<EngineConfig> config = ResolveConfig(given, Model());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->stages, 3);
  EXPECT_EQ(config->threads, 5);
  EXPECT_EQ(config->prefill_chunk_max, 7);
  EXPECT_EQ(config->kv_page_count, 11);
}

TEST(ResolveConfigTest, EveryStageHasAThread) {
  EngineConfig given;
  given.stages = 3;
  given.threads = 1;
  EXPECT_EQ(ResolveConfig(given, Model())->threads, 3);
}

TEST(ResolveConfigTest, DefaultPagesAreBoundedByMemoryButHoldOneSequence) {
  ModelConfig model = Model();
  // A page of 16 positions takes 2 * 64 * 1024 * 16 * 4 bytes = 8 MiB: 256 of them are 2 GiB.
  model.layer_count = 64;
  model.kv_head_count = 16;
  model.head_dim = 64;
  EXPECT_EQ(ResolveConfig({}, model)->kv_page_count, 256);
  model.context_length_max = 8192;
  EXPECT_EQ(ResolveConfig({}, model)->kv_page_count, 512);
}

struct RangeCase {
  const char* field;
  std::function<void(EngineConfig&, int32_t)> set;
  std::vector<int32_t> refused;
  std::vector<int32_t> taken;
};

TEST(ResolveConfigTest, EveryFieldIsHeldToItsRangeByNameAndValue) {
  const std::vector<RangeCase> cases = {
      {"stages", [](EngineConfig& c, int32_t v) { c.stages = v; }, {-1, 0, 4}, {1, 3}},
      {"threads", [](EngineConfig& c, int32_t v) { c.threads = v; }, {-1, 1025}, {0, 1024}},
      {"queue_depth_max",
       [](EngineConfig& c, int32_t v) { c.queue_depth_max = v; },
       {-1, 0, (1 << 20) + 1},
       {1, 1 << 20}},
      {"running_sequences_max",
       [](EngineConfig& c, int32_t v) { c.running_sequences_max = v; },
       {-1, 0, (1 << 16) + 1},
       {1, 1 << 10}},
      {"step_tokens_max",
       [](EngineConfig& c, int32_t v) { c.step_tokens_max = v; },
       {-1, 0, (1 << 20) + 1},
       {1, 1 << 20}},
      {"kv_page_size",
       [](EngineConfig& c, int32_t v) { c.kv_page_size = v; },
       {-8, 0, 4, 7, 24, 256},
       {8, 16, 32, 64, 128}},
      // The largest is above any machine's memory.
      {"kv_page_count",
       [](EngineConfig& c, int32_t v) { c.kv_page_count = v; },
       {-1, 1 << 30},
       {0, 1, 4096}},
      {"prefill_chunk_max",
       [](EngineConfig& c, int32_t v) { c.prefill_chunk_max = v; },
       {-1, 513},
       {0, 1, 512}},
      {"micro_batch_size",
       [](EngineConfig& c, int32_t v) { c.micro_batch_size = v; },
       {-1, 0, (1 << 20) + 1},
       {1, 1 << 20}},
      {"data_max",
       [](EngineConfig& c, int32_t v) { c.data_max = v; },
       {-1, 0, (1 << 20) + 1},
       {1, 1 << 20}},
      {"stored_answers_max",
       [](EngineConfig& c, int32_t v) { c.stored_answers_max = v; },
       {-1, 0, (1 << 20) + 1},
       {1, 1 << 20}},
  };
  ModelConfig model = Model();
  for (const RangeCase& c : cases) {
    for (const int32_t value : c.refused) {
      EngineConfig config;
      c.set(config, value);
      const absl::Status status = ResolveConfig(config, model).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.field << " " << value;
      const std::string message(status.message());
      EXPECT_EQ(message.rfind(std::string(c.field) + ":", 0), 0u) << message;
      EXPECT_NE(message.find(std::to_string(value)), std::string::npos) << message;
    }
    for (const int32_t value : c.taken) {
      EngineConfig config;
      c.set(config, value);
      EXPECT_TRUE(ResolveConfig(config, model).ok())
          << c.field << " " << value << ": " << ResolveConfig(config, model).status();
    }
  }
}

class ExportPathTest : public testing::Test {
 protected:
  ExportPathTest() {
    std::filesystem::create_directory(root());
    std::filesystem::create_directory(directory_.PathOf("outside"));
  }

  std::string root() const { return directory_.PathOf("root"); }
  absl::StatusCode CodeOf(const std::string& directory) const {
    return ResolveExportPath(root(), directory).status().code();
  }

  const TempDirectory directory_;
};

TEST_F(ExportPathTest, IsBelowTheRoot) {
  const std::string canonical = std::filesystem::canonical(root()).string();
  EXPECT_EQ(*ResolveExportPath(root(), "step-10"), canonical + "/step-10");
  EXPECT_EQ(*ResolveExportPath(root() + "/./.", "a/b"), canonical + "/a/b");
  EXPECT_EQ(*ResolveExportPath(root(), "./a"), canonical + "/a");
  EXPECT_EQ(*ResolveExportPath(root(), "..a"), canonical + "/..a");
}

TEST_F(ExportPathTest, WhatIsNotAPathBelowIsRefusedByValue) {
  const std::vector<std::string> refused = {
      "", ".", "./", "..", "../outside/x", "a/../../outside/x", "a/..", "/", "/tmp/x"};
  for (const std::string& directory : refused) {
    const absl::Status status = ResolveExportPath(root(), directory).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "\"" << directory << "\"";
    EXPECT_NE(status.message().find("\"" + directory + "\""), std::string::npos) << status;
  }
}

TEST_F(ExportPathTest, ALinkOutOfTheRootIsRefused) {
  namespace fs = std::filesystem;
  fs::create_directory_symlink(directory_.PathOf("outside"), root() + "/way_out");
  EXPECT_EQ(CodeOf("way_out/x"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("way_out"), absl::StatusCode::kInvalidArgument);
  // One that stays inside is a way like any other.
  fs::create_directory(root() + "/inside");
  fs::create_directory_symlink(root() + "/inside", root() + "/shortcut");
  EXPECT_EQ(*ResolveExportPath(root(), "shortcut/x"), fs::canonical(root()).string() + "/inside/x");
}

TEST_F(ExportPathTest, WhatExistsIsNotOverwritten) {
  std::filesystem::create_directory(root() + "/there");
  EXPECT_EQ(CodeOf("there"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CodeOf("there/"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CodeOf("there/below"), absl::StatusCode::kOk);
}

TEST_F(ExportPathTest, NeedsARootThatIsThere) {
  EXPECT_EQ(ResolveExportPath("", "x").status().code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status status = ResolveExportPath(directory_.PathOf("nowhere"), "x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("nowhere"), std::string::npos) << status;
}

}  // namespace
}  // namespace lockstep
