// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/distributions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

TEST(Distributions, EachHasASourceAndAReleaseThatIsServed) {
  for (const Distribution& one : distributions()) {
    EXPECT_FALSE(one.source.empty()) << one.id;
    EXPECT_FALSE(one.as_of.empty()) << one.id;
    const auto example = Version::parse(one.example);
    ASSERT_TRUE(example) << one.id;
    EXPECT_LE(one.oldest, *example) << one.id;
    EXPECT_LE(*example, one.newest) << one.id;
    EXPECT_THAT(split_words(one.folders), ::testing::Contains(repository_folder(one, one.example))) << one.id;
  }
  EXPECT_EQ(find_distribution("beos"), nullptr);
}

TEST(Distributions, AFolderIsNamedAsTheTableHasItElseAsTheNewest) {
  EXPECT_EQ(repository_folder(*find_distribution("ubuntu"), "24.04"), "ubuntu2404");
  EXPECT_EQ(repository_folder(*find_distribution("ubuntu"), "28.04"), "ubuntu2804");
  EXPECT_EQ(repository_folder(*find_distribution("rocky"), "9.8"), "rhel9");
  EXPECT_EQ(repository_folder(*find_distribution("sles"), "15.7"), "sles15");
  EXPECT_EQ(repository_folder(*find_distribution("sles"), "16.0"), "suse16");
  EXPECT_EQ(repository_folder(*find_distribution("opensuse-leap"), "17"), "suse17");
  EXPECT_EQ(repository_folder(*find_distribution("debian"), "trixie/sid"), "");
  EXPECT_EQ(repository_folder(*find_distribution("debian"), ""), "");
}

}  // namespace
}  // namespace gpuwarden::knowledge
