// Goal: every page has one owner, and what is freed comes back. Method: exhaust, free, take again.
#include "core/generate/page_allocator.h"

#include <set>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(PageAllocatorTest, HandsOutEveryPageOnce) {
  PageAllocator pages(5);
  EXPECT_EQ(pages.page_count(), 5);
  const auto two = pages.Allocate(2);
  const auto three = pages.Allocate(3);
  ASSERT_TRUE(two.has_value() && three.has_value());
  EXPECT_EQ(pages.in_use(), 5);
  std::set<int32_t> ids(two->begin(), two->end());
  ids.insert(three->begin(), three->end());
  EXPECT_EQ(ids, (std::set<int32_t>{0, 1, 2, 3, 4}));
}

TEST(PageAllocatorTest, GivesAllOrNothing) {
  PageAllocator pages(3);
  EXPECT_FALSE(pages.Allocate(4).has_value());
  EXPECT_EQ(pages.in_use(), 0);
  ASSERT_TRUE(pages.Allocate(2).has_value());
  EXPECT_FALSE(pages.Allocate(2).has_value());
  EXPECT_EQ(pages.in_use(), 2);
  EXPECT_TRUE(pages.Allocate(1).has_value());
}

TEST(PageAllocatorTest, NoPagesAreAlwaysThere) {
  PageAllocator pages(1);
  ASSERT_TRUE(pages.Allocate(1).has_value());
  const auto none = pages.Allocate(0);
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->empty());
  pages.Free(*none);
}

TEST(PageAllocatorTest, FreedPagesComeBack) {
  PageAllocator pages(4);
  const auto first = pages.Allocate(4);
  pages.Free({first->begin() + 1, first->begin() + 3});
  EXPECT_EQ(pages.in_use(), 2);
  const auto again = pages.Allocate(2);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(std::set<int32_t>(again->begin(), again->end()),
            std::set<int32_t>(first->begin() + 1, first->begin() + 3));
}

TEST(PageAllocatorTest, RefusesToFreeWhatIsNotTaken) {
  PageAllocator pages(2);
  const auto page = pages.Allocate(1);
  pages.Free(*page);
  EXPECT_DEATH(pages.Free(*page), "page");
  EXPECT_DEATH(pages.Free({2}), "page 2");
}

}  // namespace
}  // namespace lockstep
