// Goal: inputs that a fuzzer once found interesting are taken or refused, and never end the
// process. Method: every file of the target's corpus goes through its entry, as libFuzzer would
// hand it in.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lockstep {
namespace {

std::vector<std::string> Inputs() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("LOCKSTEP_CORPUS"))) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class CorpusTest : public testing::TestWithParam<std::string> {};

TEST_P(CorpusTest, IsTakenOrRefused) {
  std::ifstream file(GetParam(), std::ios::binary);
  ASSERT_TRUE(file.good()) << GetParam();
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
            0);
}

INSTANTIATE_TEST_SUITE_P(Inputs, CorpusTest, testing::ValuesIn(Inputs()));

}  // namespace
}  // namespace lockstep
