#include "core/model/rope_tables.h"

#include <numbers>

namespace lockstep {
namespace {

kernels::host::StretchFrequency StretchOf(const ModelConfig& config) {
  if (!config.rope_scaling.has_value()) return nullptr;
  return [scaling = *config.rope_scaling](float frequency) {
    return StretchedFrequency(scaling, frequency);
  };
}

}  // namespace

RopeTables::RopeTables(const ModelConfig& config)
    : tables_(kernels::host::MakeRopeTables(config.context_length_max, config.head_dim,
                                            config.rope_theta, StretchOf(config))) {}

float StretchedFrequency(const Llama3RopeScaling& scaling, float frequency) {
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_frequency_factor);
  const auto range =
      static_cast<float>(scaling.high_frequency_factor - scaling.low_frequency_factor);
  const auto context = static_cast<float>(scaling.original_context);
  const auto longest = static_cast<float>(scaling.original_context / scaling.low_frequency_factor);
  const auto shortest =
      static_cast<float>(scaling.original_context / scaling.high_frequency_factor);

  // A quotient of a number and a tensor is two roundings there.
  const float wave = (1.0f / frequency) * static_cast<float>(2 * std::numbers::pi);  // positions
  if (wave > longest) return frequency / factor;
  if (wave < shortest) return frequency;
  const float smooth = ((1.0f / wave) * context - low) / range;
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace lockstep
