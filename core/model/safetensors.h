#ifndef LOCKSTEP_CORE_MODEL_SAFETENSORS_H_
#define LOCKSTEP_CORE_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <map>
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
  int64_t begin = 0;  // where its bytes are in the file
  int64_t bytes = 0;
};

// A .safetensors file: eight bytes of header length (little endian), a JSON header, then the data.
// Open checks all there is to check without reading the data: lengths, JSON, dtypes, shapes against
// byte counts, and that the tensors cover the data exactly, without overlap, gap or remainder (as
// the format demands), which finds every truncation. Thread safe after that. Keeps
// the file open.
class SafetensorsFile {
 public:
  // NOT_FOUND: no such file. DATA_LOSS: truncated or damaged. UNIMPLEMENTED: a dtype whose element
  // size is not known here. Messages name file and tensor.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // By name.
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::string& path() const { return file_.path(); }
  // Bytes [offset, offset + to.size()) of an entry. Errors are those of InputFile.
  absl::Status Read(const SafetensorsEntry& entry, int64_t offset, absl::Span<char> to) const;

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  absl::Status ReadHeader();
  // Whether the entries tile [data_begin, end of the file).
  absl::Status CheckCoverage(int64_t data_begin) const;

  InputFile file_;
  std::map<std::string, SafetensorsEntry> entries_;
};

// Name and shape of a tensor to be written, as fp32.
struct SafetensorsPlan {
  std::string name;
  std::vector<int64_t> shape;
};

// Writes an F32 file: the header first, then the planned tensors one by one, then a sync. The data
// begins at a multiple of 64 bytes, for readers that map it. Errors are those of
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
