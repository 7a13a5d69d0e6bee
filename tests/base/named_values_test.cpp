// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/named_values.hpp"

#include <chrono>

namespace gpuwarden {
namespace {

using Values = std::vector<std::string>;

TEST(NamedValues, AreReadAsTheyWereGiven) {
  NamedValues values;
  values.set("gpu-ids", {"0, 2", "3"});
  values.set("all", {});
  EXPECT_EQ(values.text("gpu-ids"), "0, 2");
  EXPECT_EQ(values.list("gpu-ids"), (Values{"0", "2", "3"}));
  EXPECT_EQ(values.all("gpu-ids"), (Values{"0, 2", "3"}));
  EXPECT_EQ(values.text("all"), "");
  EXPECT_FALSE(values.text("grace"));
  EXPECT_TRUE(values.list("grace").empty());
}

TEST(NamedValues, WhatIsSetGoesBeforeWhatFilesSay) {
  NamedValues typed;
  typed.set("grace", {"5s"});
  NamedValues file;
  file.set("grace", {"9s"});
  file.set("role", {"trainer"});
  typed.fall_back_to(file);
  EXPECT_EQ(typed.text("grace"), "5s");
  EXPECT_EQ(typed.text("role"), "trainer");
  typed.forget("role");
  EXPECT_FALSE(typed.has("role"));
}

TEST(NamedValues, MistakesNameTheSourceThatGaveTheValue) {
  NamedValues typed("--");
  NamedValues environment("--");
  environment.set("nnodes", {"many"});
  environment.came_from("nnodes", "PET_NNODES");
  typed.fall_back_to(environment);
  EXPECT_EQ(count_option(typed, "nnodes", 9).error().message, "PET_NNODES: 'many' is not a whole number from 0 to 9");
  typed.set("nnodes", {"few"});
  EXPECT_EQ(count_option(typed, "nnodes", 9).error().message, "--nnodes: 'few' is not a whole number from 0 to 9");
  NamedValues named("--");
  named.set("nnodes", {"many"});
  named.fall_back_to(environment);
  EXPECT_EQ(count_option(named, "nnodes", 9).error().message, "--nnodes: 'many' is not a whole number from 0 to 9");
}

TEST(NamedValues, MistakesAreToldInTheCallersSpelling) {
  NamedValues typed("--");
  typed.set("nnodes", {"many"});
  EXPECT_EQ(count_option(typed, "nnodes", 9).error().message, "--nnodes: 'many' is not a whole number from 0 to 9");
  NamedValues arguments;
  arguments.set("nnodes", {"many"});
  EXPECT_EQ(count_option(arguments, "nnodes", 9).error().message, "nnodes: 'many' is not a whole number from 0 to 9");
  const auto refused = arguments.refuse("--heal needs --max-restarts", "a -- b, c--d, ---, --");
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().message, "heal needs max-restarts");
  EXPECT_EQ(refused.error().hint, "a -- b, cd, ---, --");
  EXPECT_EQ(typed.refuse("--heal needs --max-restarts").error().message, "--heal needs --max-restarts");
}

TEST(NamedValues, HaveTypes) {
  NamedValues values;
  values.set("count", {"4"});
  values.set("range", {"2:4"});
  values.set("size", {"2GiB"});
  values.set("time", {"1500ms"});
  values.set("left-out", {});
  EXPECT_EQ(*count_option(values, "count", 4), 4U);
  EXPECT_FALSE(count_option(values, "count", 3));
  EXPECT_EQ(*range_option(values, "range", 9), (CountRange{2, 4}));
  EXPECT_EQ(*size_option(values, "size"), Bytes(std::uint64_t{2} << 30U));
  EXPECT_EQ(*duration_option(values, "time"), std::chrono::milliseconds(1500));
  EXPECT_EQ(*duration_option(values, "left-out"), std::nullopt);
  EXPECT_EQ(*count_option(values, "none", 4), std::nullopt);
  EXPECT_FALSE(duration_option(values, "size"));
}

TEST(NamedValues, TwoThatMeanNothingTogetherAreRefused) {
  static constexpr Clash kClashes[] = {{"all", "count", "leave out one of the two"}};
  NamedValues values("--");
  values.set("all", {});
  EXPECT_TRUE(check_clashes(values, kClashes));
  values.set("count", {"2"});
  const auto refused = check_clashes(values, kClashes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "--all and --count cannot be used together");
  EXPECT_EQ(refused.error().hint, "leave out one of the two");
}

TEST(NamedValues, AWordIsOneOfThoseThatAreKnown) {
  const auto from = [](std::string_view word) { return word == "one" ? std::optional(1) : std::nullopt; };
  NamedValues values("--");
  EXPECT_EQ(*choice_option(values, "digit", from, "digit", "one"), std::nullopt);
  values.set("digit", {"one"});
  EXPECT_EQ(*choice_option(values, "digit", from, "digit", "one"), 1);
  values.set("digit", {"tw\no"});
  const auto wrong = choice_option(values, "digit", from, "digit", "one");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(), (Error{ErrorCode::invalid_argument, "--digit: unknown digit 'tw?o'", "one"}));
}

}  // namespace
}  // namespace gpuwarden
