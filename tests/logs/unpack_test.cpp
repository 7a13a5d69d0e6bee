// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/unpack.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::logs {
namespace {

using namespace std::string_literals;
using namespace gpuwarden::testing;
using ::testing::HasSubstr;

/// `gzip -n` of the line "a,1".
const std::string kPackedLine =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\xd4\x31\xe4\x02\x00\x52\x1e\x01\xb5\x04\x00\x00\x00"s;

TEST(UnpackOne, GivesWhatIsPackedAndWhatIsNotAsItIs) {
  EXPECT_EQ(unpack_one("a,1\n", "plain"), "a,1\n");
  EXPECT_EQ(unpack_one(kPackedLine, "packed.gz"), "a,1\n");
}

TEST(UnpackOne, WhatIsDamagedIsSaidToBe) {
  EXPECT_THAT(unpack_one(kPackedLine.substr(0, 8), "cut.gz"), FailsWith(ErrorCode::corrupt, HasSubstr("cut.gz")));
}

}  // namespace
}  // namespace gpuwarden::logs
