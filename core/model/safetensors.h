#ifndef LOCKSTEP_CORE_MODEL_SAFETENSORS_H_
#define LOCKSTEP_CORE_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/file_io.h"

namespace lockstep {

// One tensor inside a file, still in the file's own dtype.
struct SafetensorsEntry {
  std::string dtype;  // "F32", "BF16", ... as the file spells it
  std::vector<int64_t> shape;
  absl::Span<const char> bytes;  // borrowed from the file
};

// A .safetensors file: eight bytes of header length (little endian), a JSON header, then the data.
// Mapped read-only for the object's lifetime; entries borrow from it. Open checks all there is to
// check without reading the data: lengths, JSON, dtypes, shapes against byte counts, and that the
// tensors cover the data exactly, without overlap, gap or remainder (as the format demands), which
// finds every truncation. Thread compatible.
class SafetensorsFile {
 public:
  // NOT_FOUND: no such file. DATA_LOSS: truncated or damaged. UNIMPLEMENTED: a dtype whose element
  // size is not known here. Messages name file and tensor.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // By name.
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::string& path() const { return path_; }
  // Takes bytes of an entry that were read out of this process's memory; whoever looks at them
  // again reads them again. A mapped file is resident wherever it was looked at.
  void Forget(absl::Span<const char> bytes) const;

  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;

 private:
  struct Unmap {
    int64_t bytes = 0;
    void operator()(const char* begin) const;
  };

  SafetensorsFile(std::string path, std::unique_ptr<const char, Unmap> data)
      : path_(std::move(path)), data_(std::move(data)) {}
  absl::Status ReadHeader();
  // Whether the entries tile data[data_size].
  absl::Status CheckCoverage(const char* data, int64_t data_size) const;

  std::string path_;
  std::unique_ptr<const char, Unmap> data_;  // the whole file
  std::map<std::string, SafetensorsEntry> entries_;
};

// Name and shape of a tensor to be written, as fp32.
struct SafetensorsPlan {
  std::string name;
  std::vector<int64_t> shape;
};

// Writes an F32 file: the header first, then the planned tensors one by one, then a sync. The data
// begins at a multiple of 64 bytes, so a mapped reader gets aligned rows. Errors are those of
// file_io.h. One thread at a time.
class SafetensorsWriter {
 public:
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path,
                                                  absl::Span<const SafetensorsPlan> plans);

  // The next tensor in the order of the plans, all its elements.
  absl::Status Append(absl::Span<const float> values);
  // REQUIRES: every planned tensor was appended.
  absl::Status Finish();

 private:
  SafetensorsWriter(OutputFile file, std::vector<int64_t> sizes)
      : file_(std::move(file)), sizes_(std::move(sizes)) {}

  OutputFile file_;
  std::vector<int64_t> sizes_;  // elements, in order
  size_t next_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_SAFETENSORS_H_
