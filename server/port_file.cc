#include "server/port_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

absl::Status SystemError(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat("port_file: ", path, ": ", std::strerror(error)));
}

}  // namespace

absl::Status WritePortFile(const std::string& path, int port) {
  // Beside the target: a rename only replaces within one file system.
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::ofstream file(temporary);
  file << port << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return SystemError(path, error);
  }
  return absl::OkStatus();
}

absl::Status RemovePortFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return SystemError(path, errno);
}

}  // namespace lockstep
