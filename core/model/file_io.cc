#include "core/model/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// "a/b/" and "a/b" are the same directory; only the second has a name and a parent.
std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string ParentOf(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

absl::Status SystemError(const std::string& path, absl::string_view doing, int error_number) {
  const std::string message = absl::StrCat(path, ": ", doing, ": ", std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t bytes_max) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return SystemError(path, "cannot open", errno);
  std::string contents;
  char piece[1 << 16];
  while (true) {
    const size_t count = std::fread(piece, 1, sizeof(piece), file.get());
    contents.append(piece, count);
    if (static_cast<int64_t>(contents.size()) > bytes_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": larger than the limit of ", bytes_max, " bytes"));
    }
    if (count < sizeof(piece)) break;
  }
  if (std::ferror(file.get())) return SystemError(path, "cannot read", errno);
  return contents;
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot open", errno);
  InputFile file(path, descriptor);
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return SystemError(path, "cannot open", errno);
  if (!S_ISREG(status.st_mode))
    return absl::DataLossError(absl::StrCat(path, ": not a regular file"));
  file.bytes_ = status.st_size;
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status InputFile::ReadAt(int64_t offset, int64_t count, char* bytes) const {
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, bytes, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path_, "cannot read", errno);
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": shorter than the ", bytes_, " bytes that it was opened with"));
    }
    offset += got;
    count -= got;
    bytes += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return SystemError(path, "cannot create", errno);
  return OutputFile(path, descriptor);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status OutputFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path_, "cannot write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  if (::fsync(descriptor_) != 0) return SystemError(path_, "cannot sync", errno);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(directory, "cannot open", errno);
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  return result == 0 ? absl::OkStatus() : SystemError(directory, "cannot sync", error_number);
}

absl::StatusOr<AtomicDirectory> AtomicDirectory::Create(const std::string& directory) {
  const std::string target = WithoutTrailingSlash(directory);
  std::error_code error;
  if (fs::symlink_status(target, error).type() != fs::file_type::not_found) {
    return absl::AlreadyExistsError(absl::StrCat(target, ": already exists"));
  }
  std::string temporary = absl::StrCat(target, ".partial-XXXXXX");
  if (::mkdtemp(temporary.data()) == nullptr) {
    return SystemError(target, "cannot create a directory beside it", errno);
  }
  AtomicDirectory created(target, temporary);
  // mkdtemp lets nobody else in; a model directory is as public as its parent.
  fs::permissions(temporary, fs::perms(0755), error);
  if (error) return SystemError(temporary, "cannot set permissions", error.value());
  return created;
}

AtomicDirectory::~AtomicDirectory() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

std::string AtomicDirectory::PathOf(absl::string_view name) const {
  return absl::StrCat(temporary_, "/", name);
}

absl::Status AtomicDirectory::WriteFile(absl::string_view name, absl::string_view contents) {
  LOCKSTEP_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(PathOf(name)));
  LOCKSTEP_RETURN_IF_ERROR(file.Write(contents));
  return file.Sync();
}

absl::Status AtomicDirectory::Commit() {
  LOCKSTEP_RETURN_IF_ERROR(SyncDirectory(temporary_));
  // A plain rename would replace an empty directory that appeared meanwhile; it is for the file
  // systems (EINVAL) that know no other.
  int result =
      ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, directory_.c_str(), RENAME_NOREPLACE);
  if (result != 0 && errno == EINVAL) result = ::rename(temporary_.c_str(), directory_.c_str());
  if (result != 0) {
    return SystemError(directory_, "cannot rename the finished directory to it", errno);
  }
  temporary_.clear();
  return SyncDirectory(ParentOf(directory_));
}

}  // namespace lockstep
