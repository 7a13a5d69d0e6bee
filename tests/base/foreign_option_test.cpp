// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/foreign_option.hpp"

#include "support/matchers.hpp"

namespace gpuwarden {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;

constexpr ForeignOption kRows[] = {{"--fly-high", "birds do", ForeignOption::Kind::needless},
                                   {"--height", "birds know", ForeignOption::Kind::needless_value},
                                   {"--sink", "write --swim"}};

TEST(ForeignOption, IsFoundWithUnderscoresToo) {
  EXPECT_EQ(find_foreign_option(kRows, "--fly_high"), &kRows[0]);
  EXPECT_EQ(find_foreign_option(kRows, "--fly"), nullptr);
}

TEST(ForeignOption, ASwitchTakesOnlyASwitchsWord) {
  const std::string on = "True";
  const std::string other = "gpt2";
  EXPECT_EQ(takes_next_word(kRows[0], false, &on), true);
  EXPECT_EQ(takes_next_word(kRows[0], false, &other), false);
  EXPECT_EQ(takes_next_word(kRows[0], false, nullptr), false);
}

TEST(ForeignOption, AValueMustStandBehindItOrBeAttached) {
  const std::string value = "80";
  EXPECT_EQ(takes_next_word(kRows[1], false, &value), true);
  EXPECT_EQ(takes_next_word(kRows[1], true, &value), false);
  EXPECT_EQ(takes_next_word(kRows[1], true, nullptr), false);
  EXPECT_THAT(takes_next_word(kRows[1], false, nullptr),
              FailsWith(ErrorCode::invalid_argument, "--height needs a value"));
}

TEST(ForeignOption, ReasonsAreToldOnce) {
  const ForeignOption a{"--a", "x", ForeignOption::Kind::needless};
  const ForeignOption b{"--b", "y", ForeignOption::Kind::left_out_value};
  const ForeignOption c{"--c", "x", ForeignOption::Kind::needless_value};
  EXPECT_THAT(taken_sentences({&a, &b, &c, &a}), ElementsAre("--a, --c are not needed: x", "--b is left out: y"));
}

TEST(LooksLikeOption, NumbersAndTheDashOfStandardInputDoNot) {
  EXPECT_TRUE(looks_like_option("-n"));
  EXPECT_TRUE(looks_like_option("--name"));
  for (const char* word : {"-", "-1", "-.5", "name", ""}) EXPECT_FALSE(looks_like_option(word)) << word;
}

}  // namespace
}  // namespace gpuwarden
