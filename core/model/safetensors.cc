#include "core/model/safetensors.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr int64_t kLengthBytes = 8;
// The limit of the format's own reader.
constexpr int64_t kHeaderBytesMax = 100'000'000;
constexpr size_t kRankMax = 8;
constexpr int64_t kDataAlignment = 64;

// Bytes of one element; 0: unknown.
int64_t ElementBytes(const std::string& dtype) {
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "BF16" || dtype == "F16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "BOOL" || dtype == "I8" || dtype == "U8" || dtype == "F8_E4M3" ||
      dtype == "F8_E5M2") {
    return 1;
  }
  return 0;
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

bool IsCount(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX};
}

// Elements of `shape`, an array of counts; -1: it is no shape or has more elements than fit.
int64_t ElementsOf(const json& shape) {
  if (!shape.is_array() || shape.size() > kRankMax) return -1;
  int64_t elements = 1;
  for (const json& dimension : shape) {
    if (!IsCount(dimension)) return -1;
    if (__builtin_mul_overflow(elements, dimension.get<int64_t>(), &elements)) return -1;
  }
  return elements;
}

// An entry whose data begin `data_begin` bytes into the file, of which there are data_size.
absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& where, const json& value,
                                            int64_t data_begin, int64_t data_size) {
  if (!value.is_object()) return Damaged(where, "its header entry is not an object");
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) return Damaged(where, "dtype is missing");
  if (shape == value.end()) return Damaged(where, "shape is missing");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 ||
      !IsCount((*offsets)[0]) || !IsCount((*offsets)[1])) {
    return Damaged(where, "data_offsets are missing or not two offsets");
  }

  SafetensorsEntry entry;
  entry.dtype = dtype->get<std::string>();
  const int64_t element_bytes = ElementBytes(entry.dtype);
  if (element_bytes == 0) {
    return absl::UnimplementedError(absl::StrCat(where, ": unknown dtype ", entry.dtype));
  }
  const int64_t elements = ElementsOf(*shape);
  int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, element_bytes, &bytes)) {
    return Damaged(where, absl::StrCat("shape ", shape->dump(), " makes no sense"));
  }
  entry.shape = shape->get<std::vector<int64_t>>();
  const int64_t begin = (*offsets)[0].get<int64_t>();
  const int64_t end = (*offsets)[1].get<int64_t>();
  if (begin > end || end > data_size) {
    return Damaged(where, absl::StrCat("bytes [", begin, ", ", end, ") lie outside the ", data_size,
                                       " data bytes of the file (is it truncated?)"));
  }
  if (end - begin != bytes) {
    return Damaged(where, absl::StrCat("shape ", shape->dump(), " of ", entry.dtype, " takes ",
                                       bytes, " bytes, data_offsets hold ", end - begin));
  }
  entry.begin = data_begin + begin;
  entry.bytes = bytes;
  return entry;
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(path));
  SafetensorsFile file(std::move(opened));
  LOCKSTEP_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

absl::Status SafetensorsFile::Read(const SafetensorsEntry& entry, int64_t offset,
                                   absl::Span<char> to) const {
  const int64_t count = static_cast<int64_t>(to.size());
  LOCKSTEP_CHECK(offset >= 0 && offset + count <= entry.bytes) << "outside of the entry";
  return file_.ReadAt(entry.begin + offset, count, to.data());
}

absl::Status SafetensorsFile::ReadHeader() {
  const int64_t file_bytes = file_.bytes();
  if (file_bytes < kLengthBytes) {
    return Damaged(path(), absl::StrCat("truncated: ", file_bytes, " bytes"));
  }
  char length[kLengthBytes];
  LOCKSTEP_RETURN_IF_ERROR(file_.ReadAt(0, kLengthBytes, length));
  const auto header_bytes = std::bit_cast<uint64_t>(length);
  if (header_bytes > uint64_t{kHeaderBytesMax}) {
    return Damaged(path(), absl::StrCat("header length ", header_bytes, " is over the limit of ",
                                        kHeaderBytesMax));
  }
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(header_bytes);
  if (data_begin > file_bytes) {
    return Damaged(path(), absl::StrCat("truncated: a header of ", header_bytes,
                                        " bytes in a file of ", file_bytes));
  }
  std::string text(header_bytes, '\0');
  LOCKSTEP_RETURN_IF_ERROR(
      file_.ReadAt(kLengthBytes, static_cast<int64_t>(header_bytes), text.data()));
  const json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Damaged(path(), "the header is not a JSON object");

  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    LOCKSTEP_ASSIGN_OR_RETURN(
        SafetensorsEntry entry,
        ParseEntry(absl::StrCat(path(), ": ", name), value, data_begin, file_bytes - data_begin));
    entries_.emplace(name, std::move(entry));
  }
  return CheckCoverage(data_begin);
}

absl::Status SafetensorsFile::CheckCoverage(int64_t data_begin) const {
  std::vector<std::pair<int64_t, const std::string*>> by_place;
  for (const auto& [name, entry] : entries_) by_place.emplace_back(entry.begin, &name);
  std::sort(by_place.begin(), by_place.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  int64_t next = data_begin;
  for (const auto& [begin, name] : by_place) {
    if (entries_.at(*name).bytes == 0) continue;
    if (begin != next) {
      return Damaged(absl::StrCat(path(), ": ", *name),
                     begin < next ? "its data overlap another tensor's"
                                  : "there is a gap in the data before it");
    }
    next += entries_.at(*name).bytes;
  }
  if (next != file_.bytes()) {
    return Damaged(path(), absl::StrCat(file_.bytes() - next, " bytes behind the last tensor"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, absl::Span<const SafetensorsPlan> plans) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::vector<int64_t> sizes;
  int64_t offset = 0;
  for (const SafetensorsPlan& plan : plans) {
    int64_t size = 1;
    for (const int64_t dimension : plan.shape) size *= dimension;
    const int64_t end = offset + size * static_cast<int64_t>(sizeof(float));
    header[plan.name] = {{"dtype", "F32"}, {"shape", plan.shape}, {"data_offsets", {offset, end}}};
    sizes.push_back(size);
    offset = end;
  }
  // Spaces behind the JSON are part of the format.
  std::string text = header.dump();
  const size_t unaligned = (kLengthBytes + text.size()) % kDataAlignment;
  if (unaligned != 0) text.append(kDataAlignment - unaligned, ' ');

  LOCKSTEP_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  const uint64_t length = text.size();
  LOCKSTEP_RETURN_IF_ERROR(
      file.Write(absl::string_view(reinterpret_cast<const char*>(&length), kLengthBytes)));
  LOCKSTEP_RETURN_IF_ERROR(file.Write(text));
  return SafetensorsWriter(std::move(file), std::move(sizes));
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  LOCKSTEP_CHECK_LT(next_, sizes_.size()) << "more tensors than planned";
  LOCKSTEP_CHECK_EQ(static_cast<int64_t>(values.size()), sizes_[next_]);
  ++next_;
  return file_.Write(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(float)));
}

absl::Status SafetensorsWriter::Finish() {
  LOCKSTEP_CHECK_EQ(next_, sizes_.size()) << "tensors are missing";
  return file_.Sync();
}

}  // namespace lockstep
