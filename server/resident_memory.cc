#include "server/resident_memory.h"

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace lockstep {
namespace {

// "VmRSS:\t  838900 kB"
absl::StatusOr<int64_t> BytesOf(absl::string_view status, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat(name, ":"))) continue;
    int64_t kibibytes = 0;
    if (!absl::ConsumeSuffix(&line, " kB") || !absl::SimpleAtoi(line, &kibibytes)) break;
    return kibibytes * 1024;
  }
  return absl::InvalidArgumentError(absl::StrCat("no count of kB for ", name));
}

}  // namespace

absl::StatusOr<ResidentMemory> ReadResidentMemory() {
  std::ifstream file("/proc/self/status");
  if (!file) return absl::UnavailableError("/proc/self/status: cannot be read");
  return ParseResidentMemory(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

absl::StatusOr<ResidentMemory> ParseResidentMemory(absl::string_view status) {
  ResidentMemory memory;
  LOCKSTEP_ASSIGN_OR_RETURN(memory.now_bytes, BytesOf(status, "VmRSS"));
  LOCKSTEP_ASSIGN_OR_RETURN(memory.peak_bytes, BytesOf(status, "VmHWM"));
  return memory;
}

}  // namespace lockstep
