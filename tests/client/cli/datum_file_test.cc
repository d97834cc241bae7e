// Goal: the documented lines are read, and a bad one is named by its number.
#include "client/cli/datum_file.h"

#include <cmath>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

absl::StatusOr<std::vector<v1::Datum>> Read(const std::string& text) {
  std::istringstream file(text);
  return ReadDatumFile(file, "f.jsonl");
}

TEST(DatumFileTest, ReadsEveryField) {
  const auto data = Read(
      "\n"
      R"({"model_input": [5, 6], "target_tokens": [6, 7]})"
      "\n  \n"
      R"({"modelInput": [1], "target_tokens": [2], "mask": [0], "weights": [0.5],)"
      R"( "logprobs": ["NaN"], "advantages": [-1.5], "sampling_params": {"temperature": 0.7},)"
      R"( "sampled_under": {"state_id": "AAEC", "numerics_id": "fp32-v1-l1"}})");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->size(), 2u);
  EXPECT_EQ((*data)[0].model_input(1), 6);
  EXPECT_EQ((*data)[0].target_tokens(1), 7);
  const v1::Datum& datum = (*data)[1];
  EXPECT_EQ(datum.model_input(0), 1);
  EXPECT_EQ(datum.mask(0), 0);
  EXPECT_EQ(datum.weights(0), 0.5f);
  EXPECT_TRUE(std::isnan(datum.logprobs(0)));
  EXPECT_EQ(datum.advantages(0), -1.5f);
  EXPECT_EQ(datum.sampling_params().temperature(), 0.7f);
  EXPECT_EQ(datum.sampled_under().state_id(), std::string("\0\1\2", 3));
  EXPECT_EQ(datum.sampled_under().numerics_id(), "fp32-v1-l1");
}

TEST(DatumFileTest, NamesTheBadLine) {
  const std::string good = R"({"model_input": [5], "target_tokens": [6]})";
  for (const char* bad : {"not json", R"({"model_inputs": [5]})", R"({"model_input": ["five"]})",
                          R"({"mask": [0.5)", "[]"}) {
    const auto data = Read(good + "\n\n" + bad + "\n" + good);
    EXPECT_TRUE(absl::StartsWith(data.status().message(), "f.jsonl:3: ")) << data.status();
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Read("\n \n").status().message(), "f.jsonl: holds no data");
}

TEST(DatumFileTest, TheExampleOfTheHelpIsRight) {
  for (absl::string_view line : absl::StrSplit(kDatumFileFormat, '\n')) {
    if (!absl::StartsWith(line, "  {")) continue;
    const auto data = Read(std::string(line));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)[0].mask_size(), (*data)[0].model_input_size());
    return;
  }
  FAIL() << "no example";
}

}  // namespace
}  // namespace lockstep::cli
