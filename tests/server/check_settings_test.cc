// Goal: settings that cannot work are refused before a model is read, naming the setting, its value
// and where it came from. Method: one change each to good settings.
#include <functional>

#include "gtest/gtest.h"
#include "server/settings.h"

namespace lockstep {
namespace {

Settings Good() {
  Settings settings{.config = DefaultServerConfig(), .sources = {}};
  settings.config.set_model("m");
  return settings;
}

TEST(CheckSettingsTest, RefusesByNameAndValue) {
  struct Case {
    std::function<void(v1::ServerConfig&)> change;
    std::string message;  // empty: accepted
  };
  const std::vector<Case> cases = {
      {[](auto& c) { c.set_model(""); },
       "model: required, the directory of a Hugging Face model: --model=DIR"},
      {[](auto& c) { c.set_stages(0); }, "stages: must be in [1, 1024], is 0 (from default)"},
      {[](auto& c) { c.set_threads(-1); }, "threads: must be in [0, 4096], is -1 (from default)"},
      {[](auto& c) { c.set_queue_depth_max(0); },
       "queue_depth_max: must be in [1, 1048576], is 0 (from default)"},
      {[](auto& c) { c.set_message_size_max_mib(4096); },
       "message_size_max_mib: must be in [1, 2047], is 4096 (from default)"},
      {[](auto& c) { c.set_micro_batch_size(0); },
       "micro_batch_size: must be in [1, 65536], is 0 (from default)"},
      {[](auto& c) { c.set_kv_page_size(12); },
       "kv_page_size: must be one of 8, 16, 32, 64, 128, is 12 (from default)"},
      {[](auto& c) { c.set_kv_page_size(128); }, ""},
      {[](auto& c) { c.set_instruction_set("AVX2"); },
       "instruction_set: must be one of auto, avx512_bf16, avx512, avx2, scalar, reference, is "
       "AVX2 (from default)"},
      {[](auto& c) { c.set_instruction_set("reference"); }, ""},
      {[](auto& c) { c.set_profile("fp16"); },
       "profile: must be one of fp32, bf16, is fp16 (from default)"},
      {[](auto& c) { c.set_profile("bf16"); }, ""},
      {[](auto& c) { c.set_listen("nowhere"); },
       "listen: must be host:port, is \"nowhere\"; an example: 127.0.0.1:50551 (from default)"},
      {[](auto& c) { c.set_listen("0.0.0.0:50551"); },
       "listen: 0.0.0.0:50551 is reachable from other machines, without encryption or passwords; "
       "--insecure_remote allows it (from default)"},
      {[](auto& c) {
         c.set_listen("0.0.0.0:50551");
         c.set_insecure_remote(true);
       },
       ""},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + cases[i].message);
    Settings settings = Good();
    cases[i].change(settings.config);
    EXPECT_EQ(CheckSettings(settings).message(), cases[i].message);
  }
}

TEST(CheckSettingsTest, NamesTheSource) {
  Settings settings = Good();
  settings.config.set_stages(-3);
  settings.sources["stages"] = "environment";
  EXPECT_EQ(CheckSettings(settings).message(),
            "stages: must be in [1, 1024], is -3 (from environment)");
}

}  // namespace
}  // namespace lockstep
