#include "core/pipeline/weight_versions.h"

#include <utility>

#include "core/base/check.h"

namespace lockstep {

WeightVersions::WeightVersions(Pipeline* pipeline, WeightsState initial)
    : pipeline_(pipeline), current_(std::move(initial)) {}

WeightsState WeightVersions::Pin() {
  ++pins_[current_.weight_version];
  return current_;
}

void WeightVersions::Unpin(uint64_t version) {
  const auto pin = pins_.find(version);
  LOCKSTEP_CHECK(pin != pins_.end()) << "version " << version << " is not pinned";
  if (--pin->second > 0) return;
  pins_.erase(pin);
  if (version == current_.weight_version) return;
  pipeline_->ReleaseWeights(version);
}

void WeightVersions::Advance(WeightsState next) {
  const uint64_t old = current_.weight_version;
  LOCKSTEP_CHECK_GT(next.weight_version, old);
  current_ = std::move(next);
  if (pins_.count(old) > 0) return;
  pipeline_->ReleaseWeights(old);
}

int64_t WeightVersions::retired_count() const {
  return static_cast<int64_t>(pins_.size() - pins_.count(current_.weight_version));
}

}  // namespace lockstep
