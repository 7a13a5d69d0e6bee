// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/typed_values.hpp"

#include <gtest/gtest.h>

namespace gpuwarden {
namespace {

TEST(ParseCount, IsAWholeNumberUpToTheMost) {
  EXPECT_EQ(parse_count("0", 8).value(), 0U);
  EXPECT_EQ(parse_count("8", 8).value(), 8U);
  for (const char* wrong : {"", "-1", "9", "1.5", "x"})
    EXPECT_EQ(parse_count(wrong, 8).error().code, ErrorCode::invalid_argument) << wrong;
  EXPECT_EQ(parse_count("9", 8).error().message, "'9' is not a whole number from 0 to 8");
}

TEST(ParseCountRange, IsANumberOrTwo) {
  EXPECT_EQ(parse_count_range("4", 8).value(), (CountRange{4, 4}));
  EXPECT_EQ(parse_count_range("2:4", 8).value(), (CountRange{2, 4}));
  for (const char* wrong : {":", "2:", ":4", "4:2", "0:4", "2:9", "2:3:4", "a:b"}) {
    const auto range = parse_count_range(wrong, 8);
    ASSERT_FALSE(range) << wrong;
    EXPECT_TRUE(range.error().message.ends_with("is not a range")) << range.error().message;
  }
}

TEST(ParseMeantSize, HasAUnitWhereItWouldBeAFewBytes) {
  EXPECT_EQ(parse_meant_size("40GiB").value(), 40_GiB);
  EXPECT_EQ(parse_meant_size("40B").value(), Bytes(40));
  EXPECT_EQ(parse_meant_size("0").value(), Bytes(0));
  EXPECT_EQ(parse_meant_size("42949672960").value(), 40_GiB) << "as tools print it";
  const auto bare = parse_meant_size("40");
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().message, "40 has no unit, and would be bytes");
  EXPECT_EQ(bare.error().hint, "write 40GiB, 40MiB or 40B");
  EXPECT_FALSE(parse_meant_size("much"));
}

}  // namespace
}  // namespace gpuwarden
