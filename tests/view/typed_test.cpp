// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/typed.hpp"

#include "gpuwarden/view/scene.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::view {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::IsOkAnd;

TEST(SetSort, TakesEveryColumnByItsTitle) {
  for (const SortColumn& column : sort_columns()) {
    std::string name(column.title);
    std::erase(name, '%');
    ViewState state;
    ASSERT_THAT(set_sort(state, name), IsOk()) << name;
    EXPECT_EQ(state.sort, column.by);
    EXPECT_EQ(state.descending, column.descending);
    ASSERT_THAT(set_sort(state, "-" + name), IsOk());
    EXPECT_TRUE(state.descending);
  }
  ViewState state;
  const auto wrong = set_sort(state, "colour");
  EXPECT_THAT(wrong, FailsWith(ErrorCode::invalid_argument, "unknown column 'colour'"));
  EXPECT_THAT(wrong.error().hint, HasSubstr("pid"));
}

TEST(ParseExtent, IsWidthAndHeight) {
  EXPECT_THAT(parse_extent("120x40"), IsOkAnd(Extent{120, 40}));
  for (const char* wrong : {"", "120", "x40", "120x", "0x40", "120x1001", "axb", "120x40x2"})
    EXPECT_THAT(parse_extent(wrong), FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a size"))) << wrong;
}

}  // namespace
}  // namespace gpuwarden::view
