// Goal: slips of the keyboard find the name that was meant, and other words find nothing.
#include "server/nearest_name.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(NearestNameTest, FindsSlipsOnly) {
  const std::vector<std::string> known = {"stages", "threads", "kv_page_size", "kv_page_count"};
  EXPECT_EQ(NearestName("stages", known), "stages");
  EXPECT_EQ(NearestName("stage", known), "stages");
  EXPECT_EQ(NearestName("sgates", known), "stages");
  EXPECT_EQ(NearestName("kv_page_sizes", known), "kv_page_size");
  EXPECT_EQ(NearestName("page_size", known), "kv_page_size");
  EXPECT_EQ(NearestName("temperature", known), "");
  EXPECT_EQ(NearestName("", known), "");
  EXPECT_EQ(NearestName("stages", {}), "");
}

}  // namespace
}  // namespace lockstep
