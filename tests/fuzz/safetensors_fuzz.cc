// The bytes of a .safetensors file: opened, every byte that an entry claims can be read; or
// refused.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int kFile = ::memfd_create("safetensors", 0);
  LOCKSTEP_CHECK(kFile >= 0);
  LOCKSTEP_CHECK_EQ(::ftruncate(kFile, 0), 0);
  LOCKSTEP_CHECK_EQ(::pwrite(kFile, data, size, 0), static_cast<ssize_t>(size));
  const auto file = lockstep::SafetensorsFile::Open("/proc/self/fd/" + std::to_string(kFile));
  if (!file.ok()) return 0;
  for (const auto& [name, entry] : file->entries()) {
    std::string bytes(static_cast<size_t>(entry.bytes), '\0');
    LOCKSTEP_CHECK(file->Read(entry, 0, {bytes.data(), bytes.size()}).ok()) << name;
  }
  return 0;
}
