#ifndef LOCKSTEP_CORE_MODEL_FILE_IO_H_
#define LOCKSTEP_CORE_MODEL_FILE_IO_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// Files of a model directory, with system errors as Status naming path and cause. They are read,
// not mapped: a disk that fails under a mapped file ends the process.

// NOT_FOUND (ENOENT), ALREADY_EXISTS (EEXIST), PERMISSION_DENIED (EACCES), RESOURCE_EXHAUSTED (no
// space, quota or descriptors left), else UNAVAILABLE. `doing`: "cannot open".
absl::Status SystemError(const std::string& path, absl::string_view doing, int error_number);

// The whole of a file. RESOURCE_EXHAUSTED: more than `bytes_max`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t bytes_max);

// A regular file being read, closed by the destructor. Thread safe.
class InputFile {
 public:
  // DATA_LOSS: there is something else than a regular file.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        bytes_(other.bytes_) {}
  InputFile& operator=(InputFile&&) = delete;

  const std::string& path() const { return path_; }
  // Its length when it was opened.
  int64_t bytes() const { return bytes_; }
  // Reads `count` bytes from `offset` on. DATA_LOSS: the file has become shorter than that.
  // REQUIRES: [offset, offset + count) lies in the file as it was opened.
  absl::Status ReadAt(int64_t offset, int64_t count, char* bytes) const;

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  int64_t bytes_ = 0;
};

// A file being written, closed by the destructor. One thread at a time.
class OutputFile {
 public:
  // ALREADY_EXISTS: never writes over a file.
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  OutputFile& operator=(OutputFile&&) = delete;

  absl::Status Write(absl::string_view bytes);
  // Returns when the disk has it.
  absl::Status Sync();

 private:
  OutputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

// Makes a rename or a new entry in `directory` durable.
absl::Status SyncDirectory(const std::string& directory);

// A directory that appears whole or not at all: files are written to a temporary sibling, and
// Commit renames it. Without a Commit the destructor removes everything. One thread at a time.
class AtomicDirectory {
 public:
  // ALREADY_EXISTS: there is something at `directory`. NOT_FOUND: its parent is missing.
  static absl::StatusOr<AtomicDirectory> Create(const std::string& directory);
  ~AtomicDirectory();
  AtomicDirectory(AtomicDirectory&& other) noexcept
      : directory_(std::move(other.directory_)),
        temporary_(std::exchange(other.temporary_, std::string())) {}
  AtomicDirectory& operator=(AtomicDirectory&&) = delete;

  // Where a file called `name` is to be written.
  std::string PathOf(absl::string_view name) const;
  // Writes and syncs a file.
  absl::Status WriteFile(absl::string_view name, absl::string_view contents);
  // REQUIRES: the files are synced.
  absl::Status Commit();

 private:
  AtomicDirectory(std::string directory, std::string temporary)
      : directory_(std::move(directory)), temporary_(std::move(temporary)) {}

  std::string directory_;
  std::string temporary_;  // empty once committed
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_FILE_IO_H_
