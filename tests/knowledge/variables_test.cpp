// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/variables.hpp"

#include <algorithm>

namespace gpuwarden::knowledge {
namespace {

TEST(KnownVariables, AreManyAndEachIsExplainedWithItsSource) {
  EXPECT_GE(known_variables().size(), 60U);
  for (const auto& one : known_variables()) {
    EXPECT_EQ(one.name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"), std::string_view::npos) << one.name;
    for (const auto text : {one.meaning, one.when}) {
      EXPECT_TRUE(text.ends_with('.')) << one.name << ": " << text;
      EXPECT_TRUE(std::ranges::all_of(text, [](unsigned char c) { return c >= ' ' && c < 127; })) << one.name;
    }
    EXPECT_FALSE(one.values.empty() || one.default_value.empty() || one.source.empty()) << one.name;
  }
}

TEST(KnownVariables, AreFoundInAnyLetterCase) {
  const auto* found = find_known_variable("nccl_socket_ifname");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(found->software, "nccl");
  EXPECT_EQ(find_known_variable("NCCL_SOCKET"), nullptr);
  EXPECT_EQ(find_known_variable(""), nullptr);
}

TEST(KnownVariables, AreFoundByNameAndBySoftware) {
  EXPECT_EQ(find_known_variables({})->size(), known_variables().size());
  const auto some = find_known_variables({"nccl_debug", "VLLM"});
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ((*some)[0]->name, "NCCL_DEBUG");
  ASSERT_GT(some->size(), 1U);
  EXPECT_TRUE(std::all_of(some->begin() + 1, some->end(), [](const auto* one) { return one->software == "vllm"; }));
}

TEST(KnownVariables, AreNamedOnceHoweverOftenTheyAreAskedFor) {
  const auto all = find_known_variables({"nccl"});
  const auto again = find_known_variables({"nccl", "NCCL_DEBUG", "nccl_debug", "NCCL"});
  ASSERT_TRUE(all.has_value() && again.has_value());
  EXPECT_EQ(*again, *all);
  EXPECT_EQ(find_known_variables({"NCCL_DEBUG", "nccl"})->size(), all->size());
}

TEST(KnownVariables, AnUnknownWordNamesTheNearest) {
  const auto none = find_known_variables({"NCCL_DEBUG", "nccl_socket_ifnam"});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(none.error().message, "nothing is known about 'nccl_socket_ifnam'");
  EXPECT_EQ(none.error().hint, "did you mean 'NCCL_SOCKET_IFNAME'?");
}

}  // namespace
}  // namespace gpuwarden::knowledge
