// Goal: a version lives as long as it is current or pinned, and no longer. Method: a real pipeline,
// where a plan under a version that is gone fails.
#include "core/pipeline/weight_versions.h"

#include <utility>

#include "gtest/gtest.h"
#include "tests/support/tiny_pipeline.h"

namespace lockstep {
namespace {

class WeightVersionsTest : public testing::Test {
 protected:
  WeightVersionsTest() {
    WeightsState root;
    root.numerics_id = "test";
    versions_ = std::make_unique<WeightVersions>(&tiny_.pipeline(), root);
  }

  // Makes the next version and makes it current.
  void Advance() {
    WeightsState next = versions_->current();
    next.state_id[0] = static_cast<uint8_t>(++next.weight_version);
    tiny_.Step(next.weight_version);
    versions_->Advance(std::move(next));
  }

  bool Runs(uint64_t version) {
    const int32_t token = 5;
    InferencePlan plan;
    plan.weight_version = version;
    plan.batch.Append(&token, 1, 0, {0});
    EXPECT_TRUE(tiny_.pipeline().Submit(std::move(plan)).ok());
    return tiny_.pipeline().NextInference().ok();
  }

  TinyPipeline tiny_{{.stages = 2}};
  std::unique_ptr<WeightVersions> versions_;
};

TEST_F(WeightVersionsTest, WithoutAPinAnOldVersionGoesAtOnce) {
  Advance();
  EXPECT_EQ(versions_->current().weight_version, 1u);
  EXPECT_EQ(versions_->retired_count(), 0);
  EXPECT_TRUE(Runs(1));
  EXPECT_FALSE(Runs(0));
}

TEST_F(WeightVersionsTest, APinKeepsWhatWasCurrent) {
  const WeightsState pinned = versions_->Pin();
  EXPECT_EQ(pinned.weight_version, 0u);
  EXPECT_EQ(versions_->retired_count(), 0);  // current versions are not retired
  Advance();
  EXPECT_EQ(versions_->retired_count(), 1);
  EXPECT_TRUE(Runs(0));
  versions_->Unpin(0);
  EXPECT_EQ(versions_->retired_count(), 0);
  EXPECT_TRUE(Runs(1));
  EXPECT_FALSE(Runs(0));
}

TEST_F(WeightVersionsTest, TheLastOfSeveralPinsFrees) {
  versions_->Pin();
  versions_->Pin();
  Advance();
  EXPECT_EQ(versions_->Pin().weight_version, 1u);
  Advance();
  EXPECT_EQ(versions_->retired_count(), 2);
  versions_->Unpin(0);
  EXPECT_EQ(versions_->retired_count(), 2);
  EXPECT_TRUE(Runs(0));
  versions_->Unpin(1);
  EXPECT_EQ(versions_->retired_count(), 1);
  EXPECT_TRUE(Runs(0));
  EXPECT_TRUE(Runs(2));
  versions_->Unpin(0);
  EXPECT_EQ(versions_->retired_count(), 0);
  EXPECT_FALSE(Runs(1));
}

TEST_F(WeightVersionsTest, UnpinningTheCurrentVersionKeepsIt) {
  versions_->Pin();
  versions_->Unpin(0);
  EXPECT_TRUE(Runs(0));
}

TEST_F(WeightVersionsTest, RefusesAnUnpinWithoutAPin) {
  EXPECT_DEATH(versions_->Unpin(0), "version 0 is not pinned");
}

}  // namespace
}  // namespace lockstep
