// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/version.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::knowledge {
namespace {

TEST(Versions, AreReadAsAWholeWhereTheyAreAskedFor) {
  EXPECT_EQ(*read_version("12.8"), (Version{12, 8}));
  EXPECT_EQ(*read_version("580.126.09"), (Version{580, 126, 9}));
  for (const char* text : {"12.8beta", "", "twelve", "v12.8", "12 8", "."})
    EXPECT_THAT(read_version(text),
                testing::FailsWith(ErrorCode::invalid_argument, std::string("'") + text + "' is not a version"));
}

}  // namespace
}  // namespace gpuwarden::knowledge
