// The file that tells scripts which port the system picked.
#ifndef LOCKSTEP_SERVER_PORT_FILE_H_
#define LOCKSTEP_SERVER_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace lockstep {

// "PORT\n" at `path`, all or nothing: a reader that sees the file sees the whole number.
absl::Status WritePortFile(const std::string& path, int port);

// What an earlier server left must not be taken for ours. No file is no error.
absl::Status RemovePortFile(const std::string& path);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_PORT_FILE_H_
