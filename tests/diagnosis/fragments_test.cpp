// SPDX-License-Identifier: Apache-2.0
// Named parts of the rules' patterns, as the build puts them in.
#include "knowledge/fragments.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::knowledge {
namespace {

TEST(Fragments, StandWhereTheirNameStands) {
  const Resolved resolved = resolve("^{call} failed|{call}$", {{"call", "cuInit|cuCtx"}});
  EXPECT_EQ(resolved.pattern, "^(?:cuInit|cuCtx) failed|(?:cuInit|cuCtx)$");
  EXPECT_EQ(resolved.unknown, "");
}

TEST(Fragments, LeaveCountsClassesAndEscapedBracesAlone) {
  for (const std::string pattern : {R"(\w{0,40}\d{2}a{3,})", R"(\p{Greek}x)", R"(\{call\} {Call} {} { call})", "{call"})
    EXPECT_EQ(resolve(pattern, {{"call", "x"}}).pattern, pattern);
}

TEST(Fragments, AreMissedByName) { EXPECT_EQ(resolve("{call} {goes_on} {other}", {{"call", "x"}}).unknown, "goes_on"); }

}  // namespace
}  // namespace gpuwarden::knowledge
