// Models small enough that the reference kernels run them in milliseconds, with every feature of a
// large one: grouped queries, an attention width other than the hidden size, a vocabulary and an
// MLP that fill no panel, tied or untied. Pure functions.
#ifndef LOCKSTEP_TESTS_SUPPORT_TINY_MODEL_H_
#define LOCKSTEP_TESTS_SUPPORT_TINY_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/model/model_config.h"
#include "core/model/optimizer_state.h"
#include "core/model/param_spec.h"

namespace lockstep {

inline constexpr int64_t kTinyVocabSize = 67;

// Llama with its head tied to the embedding or not; Qwen2 (biases, untied); Qwen3 (norms of query
// and key, tied, and Llama 3.1's stretched RoPE beside them).
enum class TinyFamily { kTied, kUntied, kQwen2, kQwen3 };
inline constexpr TinyFamily kTinyFamilies[] = {TinyFamily::kTied, TinyFamily::kUntied,
                                               TinyFamily::kQwen2, TinyFamily::kQwen3};
// "tied", "untied", "qwen2", "qwen3".
std::string Name(TinyFamily family);

// Vocabulary 67, hidden 32, 4 heads of 16 over 2 KV heads, MLP 52, context 512, EOS 2.
ModelConfig TinyModelConfig(TinyFamily family, int64_t layer_count = 3);
inline ModelConfig TinyModelConfig(bool tied, int64_t layer_count = 3) {
  return TinyModelConfig(tied ? TinyFamily::kTied : TinyFamily::kUntied, layer_count);
}

// The shape of SmolLM2-135M, for what counts or measures.
ModelConfig SmolLm2Shape();

// Elements of one tensor, a function of (spec, seed) alone: norm weights around 1, matrices wide
// enough that attention is far from uniform and logits are nats apart.
void FillTinyTensor(const ParamSpec& spec, uint64_t seed, float* values);

// All of a stage's master weights.
void FillTinyWeights(uint64_t seed, OptimizerState& state);

// The same weights as a Hugging Face directory, but that every element of `huge_tensor` is
// `huge_value`: its products overflow. `directory` must not exist.
absl::Status WriteTinyModel(const std::string& directory, const ModelConfig& config, uint64_t seed,
                            const std::string& huge_tensor = "", float huge_value = 3e38f);

// `count` token ids in [0, token_end), a function of its arguments.
std::vector<int32_t> TinyTokens(uint64_t seed, int64_t count, int32_t token_end = kTinyVocabSize);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_TINY_MODEL_H_
