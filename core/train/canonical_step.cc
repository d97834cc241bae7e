#include "core/train/canonical_step.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are hashed as they lie in memory");

template <typename T>
void Field(Sha256& hash, T value) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  hash.Update(&value, sizeof(value));
}

template <typename T>
void Array(Sha256& hash, const std::vector<T>& values) {
  Field(hash, static_cast<uint64_t>(values.size()));
  hash.Update(values.data(), values.size() * sizeof(T));
}

// An array that stands for all ones when it is empty: both spellings hash alike.
void ArrayOrOnes(Sha256& hash, const std::vector<float>& values) {
  const bool ones = std::all_of(values.begin(), values.end(), [](float x) { return x == 1; });
  Array(hash, ones ? std::vector<float>() : values);
}

void Text(Sha256& hash, const std::string& text) {
  Field(hash, static_cast<uint64_t>(text.size()));
  hash.Update(text);
}

}  // namespace

void Update(Sha256& hash, const Datum& datum) {
  Array(hash, datum.model_input);
  Array(hash, datum.target_tokens);
  ArrayOrOnes(hash, datum.mask);
  ArrayOrOnes(hash, datum.weights);
  Array(hash, datum.logprobs);
  Array(hash, datum.advantages);
  Field(hash, datum.sampling.temperature);
  Field(hash, datum.sampling.top_p);
  Field(hash, datum.sampling.top_k);
  Field(hash, datum.sampling.min_p);
  Field(hash, static_cast<uint8_t>(datum.sampled_under.has_value()));
  if (datum.sampled_under.has_value()) {
    hash.Update(datum.sampled_under->state_id.data(), datum.sampled_under->state_id.size());
    Text(hash, datum.sampled_under->numerics_id);
  }
}

void Update(Sha256& hash, const LossConfig& loss) {
  Field(hash, static_cast<int32_t>(loss.kind));
  Field(hash, loss.clip_low_threshold);
  Field(hash, loss.clip_high_threshold);
}

void Update(Sha256& hash, const AdamWParams& adamw) {
  Field(hash, adamw.learning_rate);
  Field(hash, adamw.beta1);
  Field(hash, adamw.beta2);
  Field(hash, adamw.epsilon);
  Field(hash, adamw.weight_decay);
  Field(hash, adamw.grad_clip_norm);
}

void Update(Sha256& hash, const CanonicalStep& step) {
  Field(hash, static_cast<uint64_t>(step.data.size()));
  for (const CanonicalDatum& datum : step.data) {
    Update(hash, datum.datum);
    Update(hash, datum.loss);
  }
  Field(hash, static_cast<int32_t>(step.agg_mode));
  Update(hash, step.adamw);
}

std::string DigestHex(const kernels::Digest128& digest) {
  return absl::StrFormat("%016x%016x", digest.high, digest.low);
}

StateId RootStateId(const std::string& weights_digest, const std::string& numerics_id) {
  Sha256 hash;
  Text(hash, "lockstep root state");
  Text(hash, weights_digest);
  Text(hash, numerics_id);
  return hash.Finish();
}

StateId NextStateId(const StateId& parent, const CanonicalStep& step,
                    const std::string& numerics_id) {
  Sha256 hash;
  Text(hash, "lockstep step");
  hash.Update(parent.data(), parent.size());
  Update(hash, step);
  Text(hash, numerics_id);
  return hash.Finish();
}

}  // namespace lockstep
