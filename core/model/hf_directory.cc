#include "core/model/hf_directory.h"

#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/model/file_io.h"
#include "core/model/hf_export.h"
#include "core/model/safetensors.h"
#include "core/model/tensor_reader.h"
#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kIndexBytesMax = int64_t{64} << 20;
constexpr int64_t kTextBytesMax = int64_t{256} << 20;
// Each is an open file, of which a process may have 1,024 by default.
constexpr size_t kShardsMax = 512;

// What a tokenizer may consist of, over all kinds that transformers saves.
constexpr const char* kTokenizerFiles[] = {
    "added_tokens.json", "chat_template.jinja",     "chat_template.json",
    "merges.txt",        "special_tokens_map.json", "tokenizer.json",
    "tokenizer.model",   "tokenizer_config.json",   "vocab.json",
};

// Tensor name to shard file name, from the index.
using WeightMap = std::map<std::string, std::string>;

absl::StatusOr<WeightMap> ReadIndex(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kIndexBytesMax));
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto map = parsed.is_object() ? parsed.find("weight_map") : parsed.end();
  if (!parsed.is_object() || map == parsed.end() || !map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not JSON with a weight_map object"));
  }
  WeightMap weight_map;
  for (const auto& [tensor, file] : map->items()) {
    // A plain name: an index must not lead out of its own directory.
    if (!file.is_string() || file.get<std::string>().empty() ||
        absl::StrContains(file.get<std::string>(), '/')) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": weight_map: ", tensor, ": ",
          file.dump(-1, ' ', true, json::error_handler_t::replace), " is no file name"));
    }
    weight_map.emplace(tensor, file.get<std::string>());
  }
  return weight_map;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Tensors that some exporters add and that say nothing new: buffers of the rotary embedding, and
// the head of a model whose head is its embedding.
bool IsTolerated(const std::string& name, const ModelConfig& config) {
  return absl::EndsWith(name, "rotary_emb.inv_freq") ||
         (name == "lm_head.weight" && config.tie_word_embeddings);
}

absl::Status CheckEntry(const ParamSpec& spec, const std::string& path,
                        const SafetensorsEntry& entry) {
  if (entry.shape != ShapeInFile(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", spec.name, ": shape [", absl::StrJoin(entry.shape, ", "),
        "] where config.json asks for [", absl::StrJoin(ShapeInFile(spec), ", "), "]"));
  }
  if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16") {
    return absl::UnimplementedError(absl::StrCat(path, ": ", spec.name, ": dtype ", entry.dtype,
                                                 " is not served; F32, BF16 and F16 are"));
  }
  return absl::OkStatus();
}

}  // namespace

struct HfDirectory::Impl {
  struct Place {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
  };

  absl::Status OpenFiles(const std::string& directory);
  absl::Status AddFile(const std::string& path);
  absl::Status CheckIndexed(const std::string& directory, const WeightMap& weight_map) const;
  absl::Status CheckAgainst(const std::string& directory, const ModelConfig& config) const;

  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Place> tensors;
};

// The single file goes first, as in transformers.
absl::Status HfDirectory::Impl::OpenFiles(const std::string& directory) {
  const std::string single = absl::StrCat(directory, "/", kSingleFile);
  if (Exists(single)) return AddFile(single);
  const std::string index = absl::StrCat(directory, "/", kIndexFile);
  if (!Exists(index)) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": neither ", kSingleFile, " nor ", kIndexFile, " is there"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightMap weight_map, ReadIndex(index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  if (names.size() > kShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(index, ": ", names.size(), " shards, over the limit of ", kShardsMax));
  }
  for (const std::string& name : names) {
    LOCKSTEP_RETURN_IF_ERROR(AddFile(absl::StrCat(directory, "/", name)));
  }
  return CheckIndexed(directory, weight_map);
}

absl::Status HfDirectory::Impl::AddFile(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(path));
  files.push_back(std::make_unique<SafetensorsFile>(std::move(opened)));
  const SafetensorsFile* file = files.back().get();
  for (const auto& [name, entry] : file->entries()) {
    const auto [it, added] = tensors.emplace(name, Place{file, &entry});
    if (!added) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", name, ": is in ", it->second.file->path(), " as well"));
    }
  }
  return absl::OkStatus();
}

absl::Status HfDirectory::Impl::CheckIndexed(const std::string& directory,
                                             const WeightMap& weight_map) const {
  for (const auto& [name, file] : weight_map) {
    const std::string path = absl::StrCat(directory, "/", file);
    const auto it = tensors.find(name);
    if (it == tensors.end() || it->second.file->path() != path) {
      return absl::DataLossError(
          absl::StrCat(path, ": ", name, ": is missing, though ", kIndexFile, " says it is there"));
    }
  }
  return absl::OkStatus();
}

absl::Status HfDirectory::Impl::CheckAgainst(const std::string& directory,
                                             const ModelConfig& config) const {
  std::set<std::string> known;
  for (const ParamSpec& spec : ModelParams(config)) {
    known.insert(spec.name);
    const auto it = tensors.find(spec.name);
    if (it == tensors.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory, ": ", spec.name, ": no file holds this tensor"));
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckEntry(spec, it->second.file->path(), *it->second.entry));
  }
  for (const auto& [name, place] : tensors) {
    if (known.count(name) == 0 && !IsTolerated(name, config)) {
      return absl::InvalidArgumentError(absl::StrCat(
          place.file->path(), ": ", name, ": a tensor that config.json does not ask for"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HfDirectory> HfDirectory::Open(const std::string& model_directory,
                                              const ModelConfig& config) {
  auto impl = std::make_unique<Impl>();
  LOCKSTEP_RETURN_IF_ERROR(impl->OpenFiles(model_directory));
  LOCKSTEP_RETURN_IF_ERROR(impl->CheckAgainst(model_directory, config));
  return HfDirectory(std::move(impl));
}

absl::Status HfDirectory::Read(kernels::Parallel& parallel, absl::Span<const ParamSpec> specs,
                               float* values) const {
  std::vector<TensorSource> sources;
  for (const ParamSpec& spec : specs) {
    const auto it = impl_->tensors.find(spec.name);
    LOCKSTEP_CHECK(it != impl_->tensors.end()) << spec.name << " is not of the opened model";
    sources.push_back({it->second.file, it->second.entry, spec.name, spec.size()});
  }
  return ReadTensors(parallel, sources, values);
}

HfDirectory::HfDirectory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HfDirectory::HfDirectory(HfDirectory&&) noexcept = default;
HfDirectory& HfDirectory::operator=(HfDirectory&&) noexcept = default;
HfDirectory::~HfDirectory() = default;

namespace {

// `text` with its dtype set to what is being written: a reader that follows the config would
// round fp32 weights to bf16.
absl::StatusOr<std::string> WithDtypeFloat32(const std::string& path, const std::string& text) {
  ordered_json config = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
  }
  const char* key = config.contains("dtype") ? "dtype" : "torch_dtype";
  if (std::string_view(key) == "dtype") config.erase("torch_dtype");
  config[key] = "float32";
  return config.dump(2) + "\n";
}

// config.json, generation_config.json and the tokenizer of `source_directory`.
absl::StatusOr<std::vector<TextFile>> CopyTexts(const std::string& source_directory,
                                                const ModelConfig& config) {
  const std::string config_path = absl::StrCat(source_directory, "/config.json");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(config_path, kTextBytesMax));
  LOCKSTEP_ASSIGN_OR_RETURN(std::string written, WithDtypeFloat32(config_path, text));
  std::vector<TextFile> texts = {{"config.json", std::move(written)}};

  std::vector<std::string> names(std::begin(kTokenizerFiles), std::end(kTokenizerFiles));
  names.push_back("generation_config.json");
  for (const std::string& name : names) {
    absl::StatusOr<std::string> contents =
        ReadTextFile(absl::StrCat(source_directory, "/", name), kTextBytesMax);
    if (absl::IsNotFound(contents.status())) continue;
    LOCKSTEP_RETURN_IF_ERROR(contents.status());
    texts.push_back({name, *std::move(contents)});
  }
  if (texts.back().name != "generation_config.json") {
    texts.push_back({"generation_config.json", MakeGenerationConfigJson(config)});
  }
  return texts;
}

}  // namespace

absl::Status WriteHfDirectory(const std::string& directory, const std::string& source_directory,
                              const ModelConfig& config,
                              absl::FunctionRef<const float*(const ParamSpec&)> values) {
  std::vector<TextFile> texts = {
      {"config.json", MakeConfigJson(config)},
      {"generation_config.json", MakeGenerationConfigJson(config)},
  };
  if (!source_directory.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(texts, CopyTexts(source_directory, config));
  }
  return WriteModelDirectory(directory, texts, config, values);
}

}  // namespace lockstep
