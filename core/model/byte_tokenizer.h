#ifndef LOCKSTEP_CORE_MODEL_BYTE_TOKENIZER_H_
#define LOCKSTEP_CORE_MODEL_BYTE_TOKENIZER_H_

#include <cstdint>
#include <string>

namespace lockstep {

// The tokenizer of the quickstart's model, as files that the `tokenizers` package and transformers
// load: a token is a byte and its id is the byte's value; BOS, EOS and PAD follow. Text is encoded
// as its UTF-8 bytes, nothing is added. Constants and pure functions.
struct ByteTokenizer {
  static constexpr int32_t kBos = 256;
  static constexpr int32_t kEos = 257;
  static constexpr int32_t kPad = 258;
  static constexpr int64_t kVocabSize = 259;

  static std::string TokenizerJson();
  static std::string TokenizerConfigJson(int64_t context_length_max);
};

}  // namespace lockstep

#endif  // LOCKSTEP_CORE_MODEL_BYTE_TOKENIZER_H_
