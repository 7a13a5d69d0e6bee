// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/recognise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuwarden::logs {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFailure =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 12, in <module>\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 5.25 MiB is free.\n";

TEST(Recognise, FactsAndMessagesOfOneTextAreBothKnown) {
  const auto known = recognise(
      "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n", "paste.txt");
  ASSERT_TRUE(known.facts);
  EXPECT_TRUE(known.facts->snapshot.problem);
  EXPECT_FALSE(known.unread);
  EXPECT_FALSE(known.told.empty());
}

TEST(Recognise, ATextOfNeitherSaysWhatIsKnown) {
  const auto known = recognise("Dear diary, today it rained.\n", "diary.txt");
  EXPECT_FALSE(known.facts);
  EXPECT_TRUE(known.told.empty());
  ASSERT_TRUE(known.unread);
  EXPECT_EQ(without_facts("Dear diary, today it rained.\n", "diary.txt").message, known.unread->message);
}

TEST(Recognise, ALogWithoutFactsIsHandedToDiagnose) {
  const Error error = without_facts(kFailure, "my run.log");
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_THAT(error.message, HasSubstr("my run.log: a log of a failure"));
  EXPECT_THAT(error.hint, HasSubstr("gpuwarden diagnose 'my run.log'"));
}

TEST(Recognise, StandardInputIsNamedAsTheCommandTakesIt) {
  EXPECT_THAT(without_facts(kFailure, "standard input").hint, HasSubstr("gpuwarden diagnose - "));
}

}  // namespace
}  // namespace gpuwarden::logs
