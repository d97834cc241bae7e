#include "core/model/byte_tokenizer.h"

#include <array>

#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

constexpr char kBosText[] = "<|bos|>";
constexpr char kEosText[] = "<|eos|>";
constexpr char kPadText[] = "<|pad|>";

// UTF-8 of a code point below 0x800.
std::string Utf8(int code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

// The printable character that stands for each byte inside a byte-level tokenizer file (the
// alphabet of GPT-2): itself where Latin-1 prints it, else the next free one from U+0100.
std::array<std::string, 256> ByteLevelAlphabet() {
  std::array<std::string, 256> alphabet;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                           (byte >= 0xae && byte <= 0xff);
    alphabet[byte] = Utf8(printable ? byte : next++);
  }
  return alphabet;
}

ordered_json SpecialToken(int32_t id, const char* text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

ordered_json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

}  // namespace

std::string ByteTokenizer::TokenizerJson() {
  ordered_json vocabulary = ordered_json::object();
  const std::array<std::string, 256> alphabet = ByteLevelAlphabet();
  for (int byte = 0; byte < 256; ++byte) vocabulary[alphabet[byte]] = byte;
  const ordered_json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       ordered_json::array({SpecialToken(kBos, kBosText), SpecialToken(kEos, kEosText),
                            SpecialToken(kPad, kPadText)})},
      {"normalizer", nullptr},
      {"pre_tokenizer", ByteLevel()},
      {"post_processor", nullptr},
      {"decoder", ByteLevel()},
      // Without merges a BPE leaves every byte a token of its own.
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", ordered_json::array()}}},
  };
  return json.dump(1) + "\n";
}

std::string ByteTokenizer::TokenizerConfigJson(int64_t context_length_max) {
  const ordered_json json = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kBosText},
      {"eos_token", kEosText},
      {"pad_token", kPadText},
      {"clean_up_tokenization_spaces", false},
      {"model_max_length", context_length_max},
  };
  return json.dump(2) + "\n";
}

}  // namespace lockstep
