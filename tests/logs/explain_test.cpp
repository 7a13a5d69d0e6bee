// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/explain.hpp"

#include <nlohmann/json.hpp>

#include "support/matchers.hpp"

namespace gpuwarden::logs {
namespace {

using ::testing::HasSubstr;

Explanation explained(std::string_view question) {
  return explain(question, knowledge::Knowledge::built_in()).value_or(Explanation{.question = "(failed)"});
}

TEST(Explain, AnXidIsKnownWithItsCauses) {
  const auto known = explained(" xid=79 ");
  EXPECT_TRUE(known.found());
  ASSERT_TRUE(known.xid);
  EXPECT_TRUE(known.xid->positive);
  const auto json = to_json(known);
  EXPECT_EQ(json["question"], "xid=79");
  EXPECT_EQ(json["found"], true);
  EXPECT_EQ(json["xid"]["known"], true);
  EXPECT_FALSE(json["causes"].empty());
}

TEST(Explain, AnXidThatNobodyKnowsIsToldAndNotFound) {
  const auto unknown = explained("xid=777");
  EXPECT_TRUE(unknown.xid);
  EXPECT_FALSE(unknown.found());
  EXPECT_EQ(to_json(unknown)["found"], false);
}

TEST(Explain, MemoryAsksForTheWordsOfItsMessages) {
  const auto words = explained("Memory");
  EXPECT_TRUE(words.memory_terms);
  EXPECT_TRUE(words.found());
  EXPECT_EQ(to_json(words)["terms"][0]["term"], "allocated");
  EXPECT_FALSE(to_json(words).contains("causes"));
}

TEST(Explain, WhatIsNotKnownHasItsNearest) {
  const auto unknown = explained("oom_capacty");
  EXPECT_FALSE(unknown.found());
  EXPECT_FALSE(unknown.xid);
  EXPECT_EQ(unknown.lookup.nearest, "oom_capacity");
  EXPECT_THAT(explain(" \n", knowledge::Knowledge::built_in()),
              testing::FailsWith(ErrorCode::invalid_argument, HasSubstr("nothing to look up")));
}

}  // namespace
}  // namespace gpuwarden::logs
