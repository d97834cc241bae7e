// Goal: the memory plan is the sizes of what is allocated. Method: each part against the buffers
// that the stages really make, for every family, profile and number of stages.
#include "core/engine/memory_plan.h"

#include <string>

#include "core/model/forward.h"
#include "core/model/optimizer_state.h"
#include "core/model/param_spec.h"
#include "gtest/gtest.h"
#include "kernels/select.h"
#include "kernels/serial.h"
#include "tests/support/tiny_model.h"

namespace lockstep {
namespace {

using kernels::Profile;

EngineConfig Resolved(Profile profile, int32_t stages) {
  EngineConfig config;
  config.profile = profile;
  config.stages = stages;
  config.kv_page_count = 7;
  config.kv_page_size = 32;
  config.step_tokens_max = 100;
  return config;
}

TEST(MemoryPlanTest, PartsAreTheSizesOfTheBuffers) {
  kernels::Serial serial;
  for (const TinyFamily family : kTinyFamilies) {
    for (const Profile profile : {Profile::kFp32, Profile::kBf16}) {
      const auto selected = kernels::SelectKernels(serial, std::nullopt, profile);
      ASSERT_TRUE(selected.ok()) << selected.status();
      for (const int32_t stages : {1, 2, 3}) {
        SCOPED_TRACE(Name(family) + ", stages " + std::to_string(stages));
        const ModelConfig model = TinyModelConfig(family);
        const MemoryPlan plan = PlanMemory(Resolved(profile, stages), model);
        int64_t parameters = 0;
        int64_t weights = 0;
        for (const StageRange& range : SplitStages(model, stages)) {
          const OptimizerState state(model, range);
          for (const ParamSpec& spec : state.params()) parameters += spec.size();
          weights += state.MakeWeights(*selected->kernels, serial, 0)->memory.size();
        }
        EXPECT_EQ(plan.masters, 4 * parameters);
        EXPECT_EQ(plan.moments, 8 * parameters);
        EXPECT_EQ(plan.gradients, 4 * (parameters + (model.tie_word_embeddings ? 67 * 32 : 0)));
        EXPECT_EQ(plan.weights, weights);
        EXPECT_EQ(plan.next_weights, weights);
        // K and V, 3 layers, 2 heads of 16, 7 pages of 32 positions.
        EXPECT_EQ(plan.kv_pages, 2 * 3 * 32 * 7 * 32 * (profile == Profile::kFp32 ? 4 : 2));
        EXPECT_EQ(plan.rope_tables, stages * 2 * 512 * 8 * 4);
        EXPECT_EQ(plan.head, 128 * (67 + 3 * 32) * 4);
        EXPECT_EQ(plan.at_start(), plan.masters + plan.moments + plan.gradients + plan.weights +
                                       plan.kv_pages + plan.rope_tables + plan.head);
      }
    }
  }
}

TEST(MemoryPlanTest, ActivationsAreWhatALayerReserves) {
  for (const TinyFamily family : kTinyFamilies) {
    const ModelConfig model = TinyModelConfig(family);
    LayerActivations activations;
    activations.Reserve(model, 10);
    EXPECT_EQ(activations.size(), 10 * LayerActivations::FloatsPerRow(model)) << Name(family);
    LayerGradients gradients;
    gradients.Reserve(model, 10);
    EXPECT_EQ(gradients.size(), 10 * LayerGradients::FloatsPerRow(model)) << Name(family);

    const int64_t row = LayerActivations::FloatsPerRow(model);
    const MemoryPlan one = PlanMemory(Resolved(Profile::kFp32, 1), model);
    EXPECT_EQ(one.step_activations, 100 * (row + 32) * 4);
    EXPECT_EQ(one.micro_batch_rows, 2048);
    // Three layers with K and V of 32 floats each, the hidden state, the scratch of one backward.
    EXPECT_EQ(one.micro_batch_bytes,
              2048 * 4 * (3 * (row + 64) + 32 + LayerGradients::FloatsPerRow(model)));
    // Of two stages, the first keeps two micro-batches.
    const MemoryPlan two = PlanMemory(Resolved(Profile::kFp32, 2), model);
    const int64_t first = SplitStages(model, 2)[0].layer_end;
    EXPECT_EQ(two.micro_batch_bytes, 2048 * 4 *
                                         ((2 * first + 3 - first) * (row + 64) + 3 * 32 +
                                          2 * LayerGradients::FloatsPerRow(model)));
  }
}

TEST(MemoryPlanTest, IsDescribedInGibibytes) {
  MemoryPlan plan;
  plan.masters = int64_t{1} << 30;
  plan.moments = int64_t{2} << 30;
  plan.step_activations = int64_t{1} << 29;
  plan.micro_batch_rows = 2048;
  const std::string text = Describe(plan);
  EXPECT_NE(text.find("3.00 GiB reserved at start (masters 1.00, moments 2.00,"), std::string::npos)
      << text;
  EXPECT_NE(text.find("3.50 with a step of generation"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
