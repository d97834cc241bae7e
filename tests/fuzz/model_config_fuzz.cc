// A config.json, and behind a zero byte a generation_config.json: read into a shape that is within
// bounds, or refused.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/model/model_config.h"

namespace {

// A file of a model directory whose contents stay in memory.
class File {
 public:
  File(const std::string& directory, const char* name) : descriptor_(::memfd_create(name, 0)) {
    LOCKSTEP_CHECK_GE(descriptor_, 0);
    const std::string target = "/proc/self/fd/" + std::to_string(descriptor_);
    LOCKSTEP_CHECK_EQ(::symlink(target.c_str(), (directory + "/" + name).c_str()), 0);
  }

  void Write(std::string_view text) const {
    LOCKSTEP_CHECK_EQ(::ftruncate(descriptor_, 0), 0);
    LOCKSTEP_CHECK_EQ(::pwrite(descriptor_, text.data(), text.size(), 0),
                      static_cast<ssize_t>(text.size()));
  }

 private:
  const int descriptor_;
};

// Removed at the end of the process.
struct Directory {
  Directory() { LOCKSTEP_CHECK(::mkdtemp(path.data()) != nullptr) << path; }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  std::string path = (std::filesystem::temp_directory_path() / "lockstep-config-XXXXXX").string();
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Directory kDirectory;
  static const File kConfig(kDirectory.path, "config.json");
  static const File kGenerationConfig(kDirectory.path, "generation_config.json");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  kConfig.Write(text.substr(0, end));
  kGenerationConfig.Write(end == std::string_view::npos ? "{}" : text.substr(end + 1));
  const auto config = lockstep::ReadModelConfig(kDirectory.path);
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
