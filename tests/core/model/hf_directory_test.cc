// Goal: weights are read as they were written, bf16 exactly, and every fault that a directory can
// have is refused by name before a tensor is used. Method: a tiny model written by
// WriteHfDirectory, then one planted fault at a time in files built byte by byte.
#include "core/model/hf_directory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/device/worker_set.h"
#include "gtest/gtest.h"
#include "kernels/serial.h"
#include "nlohmann/json.hpp"
#include "tests/support/same_bits.h"
#include "tests/support/temp_directory.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Tensor>;

std::string BytesOf(const std::vector<float>& values, const std::string& dtype) {
  std::string bytes;
  for (const float value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (dtype == "F32") {
      bytes.append(reinterpret_cast<const char*>(&bits), 4);
    } else {
      const uint16_t half = static_cast<uint16_t>(bits >> 16);
      bytes.append(reinterpret_cast<const char*>(&half), 2);
    }
  }
  return bytes;
}

std::vector<float> ValuesOf(const ParamSpec& spec) {
  std::vector<float> values(spec.size());
  FillTinyTensor(spec, 3, values.data());
  return values;
}

Tensors TensorsOf(const ModelConfig& config, const std::string& dtype = "F32") {
  Tensors tensors;
  for (const ParamSpec& spec : ModelParams(config)) {
    std::vector<int64_t> shape = {spec.rows, spec.cols};
    if (spec.rank == 1) shape = {spec.cols};
    tensors[spec.name] = {dtype, shape, BytesOf(ValuesOf(spec), dtype)};
  }
  return tensors;
}

std::string WithLength(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

// A file's header and data, to be spoilt apart.
std::pair<json, std::string> HeaderAndData(const Tensors& tensors) {
  json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return {header, data};
}

std::string FileOf(const Tensors& tensors) {
  const auto [header, data] = HeaderAndData(tensors);
  return WithLength(header.dump(), data);
}

class HfDirectoryTest : public testing::Test {
 protected:
  absl::Status Open() const { return HfDirectory::Open(directory_.path(), config_).status(); }
  // Opens and reads everything.
  absl::Status ReadAll() const {
    const auto opened = HfDirectory::Open(directory_.path(), config_);
    if (!opened.ok()) return opened.status();
    for (const ParamSpec& spec : ModelParams(config_)) {
      std::vector<float> values(spec.size());
      const absl::Status read = opened->Read(serial_, {spec}, values.data());
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }
  void WriteSingle(const std::string& contents) { directory_.Write("model.safetensors", contents); }
  void WriteSingle(const Tensors& tensors) { WriteSingle(FileOf(tensors)); }

  // An error of this code whose message holds all of `parts`.
  static testing::AssertionResult IsError(const absl::Status& status, absl::StatusCode code,
                                          const std::vector<std::string>& parts) {
    if (status.code() != code) return testing::AssertionFailure() << status;
    for (const std::string& part : parts) {
      if (std::string(status.message()).find(part) == std::string::npos) {
        return testing::AssertionFailure() << "\"" << part << "\" is not in: " << status;
      }
    }
    return testing::AssertionSuccess();
  }

  const ModelConfig config_ = TinyModelConfig(/*tied=*/true, 2);
  const std::string norm_ = "model.layers.1.input_layernorm.weight";
  const TempDirectory directory_;
  mutable kernels::Serial serial_;
};

constexpr absl::StatusCode kDamaged = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kLacking = absl::StatusCode::kUnimplemented;
constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;

TEST_F(HfDirectoryTest, ReadsF32AndWidensBf16Exactly) {
  for (const std::string dtype : {"F32", "BF16"}) {
    WriteSingle(TensorsOf(config_, dtype));
    const auto opened = HfDirectory::Open(directory_.path(), config_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (const ParamSpec& spec : ModelParams(config_)) {
      std::vector<float> expected = ValuesOf(spec);
      if (dtype == "BF16") {
        for (float& value : expected) {
          value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000);
        }
      }
      std::vector<float> values(spec.size());
      ASSERT_TRUE(opened->Read(serial_, {spec}, values.data()).ok());
      EXPECT_TRUE(SameBits(values, expected)) << spec.name << " " << dtype;
    }
  }
}

// Threads cut the elements of all tensors together, wherever a tensor ends.
TEST_F(HfDirectoryTest, ReadsAllTensorsAtOnceOnAnyNumberOfThreads) {
  const std::vector<ParamSpec> specs = ModelParams(config_);
  for (const std::string dtype : {"F32", "BF16"}) {
    WriteSingle(TensorsOf(config_, dtype));
    const auto opened = HfDirectory::Open(directory_.path(), config_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    std::vector<float> expected;
    for (const ParamSpec& spec : specs) {
      std::vector<float> values(spec.size());
      ASSERT_TRUE(opened->Read(serial_, {spec}, values.data()).ok());
      expected.insert(expected.end(), values.begin(), values.end());
    }
    for (const int threads : {1, 2, 3, 7}) {
      const auto workers = WorkerSet::Create(threads);
      ASSERT_TRUE(workers.ok()) << workers.status();
      std::vector<float> values(expected.size());
      ASSERT_TRUE(opened->Read(**workers, specs, values.data()).ok());
      EXPECT_TRUE(SameBits(values, expected)) << dtype << ", threads " << threads;
    }
  }
}

TEST_F(HfDirectoryTest, NamesTheFirstOfSeveralWeightsThatAreNotFinite) {
  const std::vector<ParamSpec> specs = ModelParams(config_);
  Tensors tensors = TensorsOf(config_);
  std::vector<float> values(32, std::numeric_limits<float>::infinity());
  tensors[specs.back().name].bytes = BytesOf(values, "F32");
  std::fill_n(values.begin(), 7, 1.0f);
  tensors[norm_].bytes = BytesOf(values, "F32");
  WriteSingle(tensors);
  const auto opened = HfDirectory::Open(directory_.path(), config_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto workers = WorkerSet::Create(3);
  ASSERT_TRUE(workers.ok()) << workers.status();
  std::vector<float> all(1 << 20);
  EXPECT_TRUE(IsError(opened->Read(**workers, specs, all.data()), kDamaged,
                      {"model.safetensors", norm_, "element 7 ", "inf"}));
}

TEST_F(HfDirectoryTest, ReadsShards) {
  Tensors first = TensorsOf(config_);
  Tensors second;
  second.insert(first.extract(norm_));
  second.insert(first.extract("model.norm.weight"));
  directory_.Write("model-00001-of-00002.safetensors", FileOf(first));
  directory_.Write("model-00002-of-00002.safetensors", FileOf(second));
  json map;
  for (const auto& [name, tensor] : first) map[name] = "model-00001-of-00002.safetensors";
  for (const auto& [name, tensor] : second) map[name] = "model-00002-of-00002.safetensors";
  const auto index = [&](const json& weight_map) {
    directory_.Write("model.safetensors.index.json", json{{"weight_map", weight_map}}.dump());
  };
  index(map);
  EXPECT_TRUE(ReadAll().ok()) << ReadAll();

  // The index names a file that does not hold the tensor, one that does not exist, one elsewhere.
  json wrong = map;
  wrong[norm_] = "model-00001-of-00002.safetensors";
  index(wrong);
  EXPECT_TRUE(IsError(Open(), kDamaged, {"model-00001-of-00002.safetensors", norm_}));
  wrong[norm_] = "model-00003-of-00002.safetensors";
  index(wrong);
  EXPECT_TRUE(IsError(Open(), kNotFound, {"model-00003-of-00002.safetensors"}));
  wrong[norm_] = "../elsewhere.safetensors";
  index(wrong);
  EXPECT_TRUE(IsError(Open(), kInvalid, {norm_, "../elsewhere.safetensors"}));
  wrong = map;
  wrong["model.layers.9.mlp.up_proj.weight"] = "model-00001-of-00002.safetensors";
  index(wrong);
  EXPECT_TRUE(IsError(Open(), kDamaged, {"model.layers.9.mlp.up_proj.weight"}));
  for (const char* text : {"{", "[]", "{}", R"({"weight_map": []})"}) {
    directory_.Write("model.safetensors.index.json", text);
    EXPECT_TRUE(IsError(Open(), kInvalid, {"model.safetensors.index.json"})) << text;
  }

  index(map);
  fs::remove(directory_.PathOf("model-00002-of-00002.safetensors"));
  EXPECT_TRUE(IsError(Open(), kNotFound, {"model-00002-of-00002.safetensors"}));
  // A tensor in both shards.
  second.insert(*first.begin());
  directory_.Write("model-00002-of-00002.safetensors", FileOf(second));
  EXPECT_TRUE(IsError(Open(), kInvalid, {first.begin()->first, "as well"}));
}

TEST_F(HfDirectoryTest, RefusesADirectoryWithoutWeights) {
  EXPECT_TRUE(IsError(Open(), kNotFound, {directory_.path(), "model.safetensors"}));
  EXPECT_TRUE(IsError(HfDirectory::Open("/nonexistent/model", config_).status(), kNotFound,
                      {"/nonexistent/model"}));
  fs::create_directory(directory_.PathOf("model.safetensors"));
  EXPECT_TRUE(IsError(Open(), kDamaged, {"model.safetensors", "regular file"}));
}

// Whatever length a file is cut to, and wherever the cut falls.
TEST_F(HfDirectoryTest, RefusesTruncatedFiles) {
  const std::string whole = FileOf(TensorsOf(config_));
  const size_t data_begin = 8 + *reinterpret_cast<const uint64_t*>(whole.data());
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{9}, data_begin - 1, data_begin,
                            data_begin + 1, whole.size() / 2, whole.size() - 1}) {
    WriteSingle(whole.substr(0, size));
    EXPECT_TRUE(IsError(Open(), kDamaged, {"model.safetensors"})) << size << " bytes";
  }
  WriteSingle(whole + "x");
  EXPECT_TRUE(IsError(Open(), kDamaged, {"1 bytes behind the last tensor"}));
}

TEST_F(HfDirectoryTest, RefusesDamagedHeaders) {
  const std::pair<json, std::string> sound = HeaderAndData(TensorsOf(config_));
  const json& header = sound.first;
  const std::string& data = sound.second;
  for (const std::string text : {"", "{", "[]", "3", "{\"a\": 1}", "{\"a\": {}}"}) {
    WriteSingle(WithLength(text, data));
    EXPECT_TRUE(IsError(Open(), kDamaged, {"model.safetensors"})) << text;
  }
  WriteSingle(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + header.dump() + data);
  EXPECT_TRUE(IsError(Open(), kDamaged, {"header length 18446744073709551615"}));

  const auto spoil = [&](const std::string& pointer, const json& value) {
    json spoilt = header;
    spoilt[norm_][json::json_pointer(pointer)] = value;
    WriteSingle(WithLength(spoilt.dump(), data));
    return Open();
  };
  for (const json& shape : {json(32), json("32"), json::array({-32}), json::array({32.0}),
                            json({int64_t{1} << 62, int64_t{1} << 62}), json::array({16})}) {
    EXPECT_TRUE(IsError(spoil("/shape", shape), kDamaged, {norm_, shape.dump()})) << shape;
  }
  for (const json& offsets : {json(0), json::array({0}), json({-4, 124}), json({"0", "128"}),
                              json({128, 0}), json({0, 1 << 30}), json({0, 1.5})}) {
    EXPECT_TRUE(IsError(spoil("/data_offsets", offsets), kDamaged, {norm_})) << offsets;
  }
  EXPECT_TRUE(IsError(spoil("/dtype", 3), kDamaged, {norm_}));
  EXPECT_TRUE(IsError(spoil("/dtype", "F4"), kLacking, {norm_, "F4"}));
}

TEST_F(HfDirectoryTest, RefusesOverlapsAndGaps) {
  const auto [header, data] = HeaderAndData(TensorsOf(config_));
  json overlapping = header;
  overlapping["model.norm.weight"]["data_offsets"] = header[norm_]["data_offsets"];
  WriteSingle(WithLength(overlapping.dump(), data));
  EXPECT_TRUE(IsError(Open(), kDamaged, {"overlap"}));

  json gap = header;
  for (auto& [name, entry] : gap.items()) {
    entry["data_offsets"][0] = entry["data_offsets"][0].get<int64_t>() + 4;
    entry["data_offsets"][1] = entry["data_offsets"][1].get<int64_t>() + 4;
  }
  WriteSingle(WithLength(gap.dump(), "abcd" + data));
  EXPECT_TRUE(IsError(Open(), kDamaged, {"gap"}));
}

TEST_F(HfDirectoryTest, RefusesTensorsThatAreNotTheModels) {
  const Tensors sound = TensorsOf(config_);
  Tensors missing = sound;
  missing.erase(norm_);
  WriteSingle(missing);
  EXPECT_TRUE(IsError(Open(), kInvalid, {norm_, "no file holds"}));

  Tensors extra = sound;
  extra["model.layers.2.input_layernorm.weight"] = sound.at(norm_);
  WriteSingle(extra);
  EXPECT_TRUE(IsError(Open(), kInvalid, {"model.layers.2.input_layernorm.weight"}));

  Tensors misshapen = sound;
  misshapen[norm_].shape = {1, 32};
  WriteSingle(misshapen);
  EXPECT_TRUE(IsError(Open(), kInvalid, {norm_, "[1, 32]", "[32]"}));
  misshapen = sound;
  misshapen["model.layers.0.mlp.up_proj.weight"].shape = {32, 52};
  WriteSingle(misshapen);
  EXPECT_TRUE(
      IsError(Open(), kInvalid, {"model.layers.0.mlp.up_proj.weight", "[32, 52]", "[52, 32]"}));

  Tensors other = TensorsOf(config_, "BF16");
  other[norm_].dtype = "I16";
  WriteSingle(other);
  EXPECT_TRUE(IsError(Open(), kLacking, {norm_, "I16"}));
}

// Every binary16 but infinities and NaN, by the definition: sign, exponent, fraction.
TEST_F(HfDirectoryTest, WidensF16Exactly) {
  std::vector<uint16_t> bits;
  std::vector<float> expected;
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const uint32_t exponent = i >> 10 & 0x1f;
    if (exponent == 0x1f) continue;
    const double fraction = (i & 0x3ff) / 1024.0;
    const double magnitude = exponent == 0
                                 ? std::ldexp(fraction, -14)
                                 : std::ldexp(1 + fraction, static_cast<int>(exponent) - 15);
    bits.push_back(static_cast<uint16_t>(i));
    expected.push_back(static_cast<float>(i >> 15 != 0 ? -magnitude : magnitude));
  }
  const ParamSpec spec = ModelParams(config_).front();  // [67, 32]
  for (size_t begin = 0; begin < bits.size(); begin += spec.size()) {
    const size_t count = std::min<size_t>(spec.size(), bits.size() - begin);
    std::vector<uint16_t> part(spec.size(), 0);
    std::copy_n(&bits[begin], count, part.begin());
    Tensors tensors = TensorsOf(config_);
    tensors[spec.name].dtype = "F16";
    tensors[spec.name].bytes.assign(reinterpret_cast<const char*>(part.data()), 2 * part.size());
    WriteSingle(tensors);
    const auto opened = HfDirectory::Open(directory_.path(), config_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    std::vector<float> values(spec.size());
    ASSERT_TRUE(opened->Read(serial_, {spec}, values.data()).ok());
    EXPECT_TRUE(SameBits(std::vector<float>(values.begin(), values.begin() + count),
                         std::vector<float>(&expected[begin], &expected[begin] + count)));
  }
}

TEST_F(HfDirectoryTest, ToleratesWhatSomeExportersAdd) {
  Tensors tensors = TensorsOf(config_);
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {8}, std::string(32, '\0')};
  WriteSingle(tensors);
  EXPECT_TRUE(ReadAll().ok()) << ReadAll();
}

TEST_F(HfDirectoryTest, RefusesWeightsThatAreNotFinite) {
  for (const std::string dtype : {"F32", "BF16"}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Tensors tensors = TensorsOf(config_, dtype);
      std::vector<float> values(32, 1.0f);
      values[30] = bad;
      tensors[norm_].bytes = BytesOf(values, dtype);
      WriteSingle(tensors);
      EXPECT_TRUE(Open().ok());
      EXPECT_TRUE(IsError(ReadAll(), kDamaged, {norm_, "element 30", "not finite"}));
    }
  }
}

// By pages: of a mapped file, this would end the process.
TEST_F(HfDirectoryTest, NamesAFileThatIsCutWhileItIsRead) {
  const std::unique_ptr<WorkerSet> workers = *WorkerSet::Create(3);
  const std::vector<ParamSpec> specs = ModelParams(config_);
  std::vector<float> values(specs.back().canonical_begin + specs.back().size());
  for (const std::string dtype : {"F32", "BF16"}) {
    WriteSingle(TensorsOf(config_, dtype));
    const auto opened = HfDirectory::Open(directory_.path(), config_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const std::string path = directory_.PathOf("model.safetensors");
    const auto bytes = fs::file_size(path);
    ASSERT_GT(bytes, 4 * 4096u);
    fs::resize_file(path, bytes / 2);
    for (kernels::Parallel* parallel : {static_cast<kernels::Parallel*>(workers.get()),
                                        static_cast<kernels::Parallel*>(&serial_)}) {
      EXPECT_TRUE(IsError(opened->Read(*parallel, specs, values.data()), kDamaged,
                          {path, absl::StrCat("shorter than the ", bytes, " bytes")}));
    }
  }
}

class WriteHfDirectoryTest : public HfDirectoryTest {
 protected:
  absl::Status Write(const std::string& name, const std::string& source = "") {
    std::vector<float> values;
    return WriteHfDirectory(directory_.PathOf(name), source, config_, [&](const ParamSpec& spec) {
      values = ValuesOf(spec);
      return static_cast<const float*>(values.data());
    });
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
};

TEST_F(WriteHfDirectoryTest, WritesWhatItReads) {
  ASSERT_TRUE(Write("model").ok());
  EXPECT_EQ(Names(), std::vector<std::string>{"model"}) << "no temporary is left";
  const std::string path = directory_.PathOf("model");
  const auto config = ReadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->hidden_size, config_.hidden_size);
  EXPECT_EQ(config->head_dim, config_.head_dim);
  EXPECT_EQ(config->rms_norm_epsilon, config_.rms_norm_epsilon);
  EXPECT_EQ(config->rope_theta, config_.rope_theta);
  EXPECT_EQ(config->tie_word_embeddings, config_.tie_word_embeddings);
  EXPECT_EQ(config->bos_token_id, config_.bos_token_id);
  EXPECT_EQ(config->eos_token_ids, config_.eos_token_ids);
  const auto opened = HfDirectory::Open(path, *config);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const ParamSpec& spec : ModelParams(config_)) {
    std::vector<float> values(spec.size());
    ASSERT_TRUE(opened->Read(serial_, {spec}, values.data()).ok());
    EXPECT_TRUE(SameBits(values, ValuesOf(spec))) << spec.name;
  }
  const std::string file = directory_.Read("model/model.safetensors");
  EXPECT_EQ((8 + *reinterpret_cast<const uint64_t*>(file.data())) % 64, 0u) << "aligned data";
}

TEST_F(WriteHfDirectoryTest, TakesConfigAndTokenizerFromTheSource) {
  ASSERT_TRUE(Write("source").ok());
  json config = json::parse(directory_.Read("source/config.json"));
  config["torch_dtype"] = "bfloat16";
  config["transformers_version"] = "4.40.0";
  directory_.Write("source/config.json", config.dump());
  directory_.Write("source/generation_config.json", R"({"eos_token_id": [2, 3]})");
  directory_.Write("source/tokenizer.json", "a tokenizer");
  directory_.Write("source/chat_template.jinja", "a template");
  directory_.Write("source/unrelated.bin", "something else");

  ASSERT_TRUE(Write("model", directory_.PathOf("source")).ok());
  const json written = json::parse(directory_.Read("model/config.json"));
  EXPECT_EQ(written["torch_dtype"], "float32") << "the weights are fp32 now";
  EXPECT_EQ(written["transformers_version"], "4.40.0");
  EXPECT_EQ(directory_.Read("model/generation_config.json"), R"({"eos_token_id": [2, 3]})");
  EXPECT_EQ(directory_.Read("model/tokenizer.json"), "a tokenizer");
  EXPECT_EQ(directory_.Read("model/chat_template.jinja"), "a template");
  EXPECT_FALSE(fs::exists(directory_.PathOf("model/unrelated.bin")));
}

TEST_F(WriteHfDirectoryTest, NeverWritesOverAnythingAndLeavesNothingBehind) {
  directory_.Write("file", "precious");
  fs::create_directory(directory_.PathOf("folder"));
  EXPECT_TRUE(IsError(Write("file"), absl::StatusCode::kAlreadyExists, {"/file"}));
  EXPECT_TRUE(IsError(Write("folder"), absl::StatusCode::kAlreadyExists, {"/folder"}));
  EXPECT_TRUE(IsError(Write("folder/"), absl::StatusCode::kAlreadyExists, {"/folder"}));
  EXPECT_TRUE(IsError(Write("no/parent"), kNotFound, {"no/parent"}));
  EXPECT_TRUE(IsError(Write("model", directory_.PathOf("folder")), kNotFound, {"config.json"}));
  directory_.Write("folder/config.json", "not json");
  EXPECT_TRUE(IsError(Write("model", directory_.PathOf("folder")), kInvalid, {"config.json"}));
  EXPECT_EQ(directory_.Read("file"), "precious");
  EXPECT_EQ(Names().size(), 2u) << "a failure leaves nothing behind";
}

// Someone else makes the directory while the weights are being written.
TEST_F(WriteHfDirectoryTest, LosesTheRaceCleanly) {
  std::vector<float> values;
  const absl::Status status =
      WriteHfDirectory(directory_.PathOf("model"), "", config_, [&](const ParamSpec& spec) {
        fs::create_directory(directory_.PathOf("model"));
        values = ValuesOf(spec);
        return static_cast<const float*>(values.data());
      });
  EXPECT_TRUE(IsError(status, absl::StatusCode::kAlreadyExists, {"/model"}));
  EXPECT_EQ(Names(), std::vector<std::string>{"model"});
  EXPECT_TRUE(fs::is_empty(directory_.PathOf("model")));
}

}  // namespace
}  // namespace lockstep
