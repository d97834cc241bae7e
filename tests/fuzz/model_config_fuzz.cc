// A config.json, and behind a zero byte a generation_config.json: read into a shape that is within
// bounds, or refused.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/model/model_config.h"

namespace {

// Removed at the end of the process.
class Directory {
 public:
  Directory() {
    path_ = (std::filesystem::temp_directory_path() / "lockstep-config-XXXXXX").string();
    LOCKSTEP_CHECK(::mkdtemp(path_.data()) != nullptr) << path_;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  void Write(const char* name, std::string_view text) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary | std::ios::trunc);
    file << text;
    LOCKSTEP_CHECK(file.flush().good()) << name;
  }

 private:
  std::string path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Directory kDirectory;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  kDirectory.Write("config.json", text.substr(0, end));
  kDirectory.Write("generation_config.json",
                   end == std::string_view::npos ? "{}" : text.substr(end + 1));
  const auto config = lockstep::ReadModelConfig(kDirectory.path());
  if (!config.ok()) return 0;
  // What later code computes with must not overflow.
  LOCKSTEP_CHECK_GE(config->vocab_size, 1);
  LOCKSTEP_CHECK_GE(config->layer_count, 1);
  LOCKSTEP_CHECK_EQ(config->head_count % config->kv_head_count, 0);
  LOCKSTEP_CHECK_EQ(config->head_dim % 8, 0);
  LOCKSTEP_CHECK_LE(config->qkv_width(), int64_t{1} << 26);
  LOCKSTEP_CHECK(config->rope_theta >= 1);
  for (const int32_t id : config->eos_token_ids) {
    LOCKSTEP_CHECK(id >= 0 && id < config->vocab_size);
  }
  return 0;
}
