#ifndef LOCKSTEP_SERVER_RESIDENT_MEMORY_H_
#define LOCKSTEP_SERVER_RESIDENT_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// What a process has in the machine's memory as Linux counts it, mapped files included.
struct ResidentMemory {
  int64_t now_bytes = 0;   // VmRSS
  int64_t peak_bytes = 0;  // VmHWM, the most so far
};

// Of this process. UNAVAILABLE: there is no /proc.
absl::StatusOr<ResidentMemory> ReadResidentMemory();

// Of the text of /proc/PID/status. INVALID_ARGUMENT: a line is missing or holds no count of kB.
absl::StatusOr<ResidentMemory> ParseResidentMemory(absl::string_view status);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_RESIDENT_MEMORY_H_
