// Goal: a state's name changes with everything that the weights are a function of, and with nothing
// else. Method: one field at a time.
#include "core/train/canonical_step.h"

#include <functional>
#include <limits>
#include <set>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

Datum MakeDatum() {
  Datum datum;
  datum.model_input = {1, 2, 3};
  datum.target_tokens = {2, 3, 4};
  datum.mask = {0, 1, 1};
  datum.weights = {1, 0.5f, 2};
  datum.logprobs = {std::numeric_limits<float>::quiet_NaN(), -1, -2};
  datum.advantages = {0, 1, -1};
  datum.sampled_under = WeightsState{};
  datum.sampled_under->numerics_id = "fp32-v1-l1";
  return datum;
}

CanonicalStep MakeStep() {
  CanonicalStep step;
  step.data.push_back({MakeDatum(), {LossKind::kPpo, 0.8f, 1.2f}});
  step.data.push_back({MakeDatum(), {LossKind::kPpo, 0.8f, 1.2f}});
  step.data[1].datum.model_input[0] = 9;
  step.adamw.learning_rate = 1e-3f;
  return step;
}

StateId NameOf(const CanonicalStep& step) { return NextStateId({}, step, "fp32-v1-l1"); }

TEST(CanonicalStepTest, ChangesWithEveryField) {
  using Change = std::function<void(CanonicalStep&)>;
  const std::vector<Change> changes = {
      [](CanonicalStep& s) { s.data[0].datum.model_input[1] = 7; },
      [](CanonicalStep& s) { s.data[0].datum.target_tokens[2] = 7; },
      [](CanonicalStep& s) { s.data[0].datum.mask[0] = 1; },
      [](CanonicalStep& s) { s.data[0].datum.weights[1] = 0.25f; },
      [](CanonicalStep& s) { s.data[0].datum.logprobs[1] = -1.0000001f; },
      [](CanonicalStep& s) { s.data[0].datum.advantages[0] = -0.0f; },
      [](CanonicalStep& s) { s.data[0].datum.advantages[1] = 2; },
      [](CanonicalStep& s) { s.data[0].datum.advantages = {}; },
      [](CanonicalStep& s) { s.data[0].datum.sampling.temperature = 0.5f; },
      [](CanonicalStep& s) { s.data[0].datum.sampling.top_p = 0.5f; },
      [](CanonicalStep& s) { s.data[0].datum.sampling.top_k = 5; },
      [](CanonicalStep& s) { s.data[0].datum.sampling.min_p = 0.5f; },
      [](CanonicalStep& s) { s.data[0].datum.sampled_under.reset(); },
      [](CanonicalStep& s) { s.data[0].datum.sampled_under->state_id[31] = 1; },
      [](CanonicalStep& s) { s.data[0].datum.sampled_under->numerics_id = "bf16"; },
      [](CanonicalStep& s) { s.data[0].loss.kind = LossKind::kCrossEntropy; },
      [](CanonicalStep& s) { s.data[0].loss.clip_low_threshold = 0.7f; },
      [](CanonicalStep& s) { s.data[0].loss.clip_high_threshold = 1.3f; },
      [](CanonicalStep& s) { std::swap(s.data[0], s.data[1]); },
      [](CanonicalStep& s) { s.data.pop_back(); },
      [](CanonicalStep& s) { s.data.push_back(s.data[1]); },
      [](CanonicalStep& s) { s.agg_mode = LossAggMode::kTokenMean; },
      [](CanonicalStep& s) { s.adamw.learning_rate = 2e-3f; },
      [](CanonicalStep& s) { s.adamw.beta1 = 0.8f; },
      [](CanonicalStep& s) { s.adamw.beta2 = 0.8f; },
      [](CanonicalStep& s) { s.adamw.epsilon = 1e-6f; },
      [](CanonicalStep& s) { s.adamw.weight_decay = 0.1f; },
      [](CanonicalStep& s) { s.adamw.grad_clip_norm = 1; },
  };
  std::set<StateId> names = {NameOf(MakeStep())};
  for (size_t i = 0; i < changes.size(); ++i) {
    CanonicalStep step = MakeStep();
    changes[i](step);
    EXPECT_TRUE(names.insert(NameOf(step)).second) << "change " << i;
  }
}

TEST(CanonicalStepTest, OnesHaveOneNameSpeltOutOrNot) {
  CanonicalStep empty = MakeStep();
  empty.data[0].datum.mask = {};
  empty.data[1].datum.weights = {};
  CanonicalStep ones = MakeStep();
  ones.data[0].datum.mask = {1, 1, 1};
  ones.data[1].datum.weights = {1, 1, 1};
  EXPECT_EQ(NameOf(ones), NameOf(empty));
  ones.data[0].datum.mask = {1, 1, 0};
  EXPECT_NE(NameOf(ones), NameOf(empty));
}

TEST(CanonicalStepTest, DoesNotChangeWithACounterForPeople) {
  CanonicalStep step = MakeStep();
  step.data[0].datum.sampled_under->weight_version = 17;
  EXPECT_EQ(NameOf(step), NameOf(MakeStep()));
}

TEST(CanonicalStepTest, LengthsKeepNeighbouringArraysApart) {
  CanonicalStep a = MakeStep();
  CanonicalStep b = MakeStep();
  a.data[0].datum.model_input = {1, 2};
  a.data[0].datum.target_tokens = {3};
  b.data[0].datum.model_input = {1};
  b.data[0].datum.target_tokens = {2, 3};
  EXPECT_NE(NameOf(a), NameOf(b));
}

TEST(CanonicalStepTest, ChangesWithParentAndNumerics) {
  const StateId parent = RootStateId("digest", "fp32-v1-l1");
  const CanonicalStep step = MakeStep();
  const std::set<StateId> names = {
      parent,
      RootStateId("digest", "bf16-v1-l1"),
      RootStateId("other digest", "fp32-v1-l1"),
      NextStateId(parent, step, "fp32-v1-l1"),
      NextStateId(parent, step, "bf16-v1-l1"),
      NextStateId(RootStateId("other digest", "fp32-v1-l1"), step, "fp32-v1-l1"),
  };
  EXPECT_EQ(names.size(), 6u);
}

TEST(CanonicalStepTest, ADigestIsThirtyTwoDigitsHighHalfFirst) {
  EXPECT_EQ(DigestHex({.low = 0xab, .high = 0x123}), "000000000000012300000000000000ab");
}

}  // namespace
}  // namespace lockstep
