// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/steps.hpp"

#include "gpuwarden/memtrace/read.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::memtrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::Ge;
using ::testing::HasSubstr;
using testing::IsOkAnd;
using ::testing::Le;

Trace fixed() { return read_trace("op,id,size\na,1,1024\nf,1,0\n", "fixed").value(); }
Trace by_length() { return read_trace("op,id,c0,c1,c2\na,1,1024,64,0\nf,1,0,0,0\n", "by length").value(); }

TEST(ParseLengths, ReadsARange) {
  const auto range = parse_lengths("128..1024");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->least, 128U);
  EXPECT_EQ(range->most, 1024U);
  for (const char* text : {"", "128", "128..", "..9", "9..8", "0..8", "1..16777217", "a..b"})
    EXPECT_THAT(parse_lengths(text), FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a range"))) << text;
}

TEST(Steps, AreRepeatedOrDrawn) {
  EXPECT_THAT(steps_of(fixed(), {.repeat = 3}), IsOkAnd(ElementsAre(0, 0, 0)));
  EXPECT_THAT(steps_of(by_length(), {.repeat = 2, .tokens = 512}), IsOkAnd(ElementsAre(512, 512)));
  const auto drawn = steps_of(by_length(), {.random = LengthRange{8, 16}, .steps = 20});
  ASSERT_TRUE(drawn.has_value());
  EXPECT_EQ(drawn->size(), 20U);
  EXPECT_THAT(*drawn, Each(AllOf(Ge(8U), Le(16U))));
  EXPECT_NE(*drawn, *steps_of(by_length(), {.random = LengthRange{8, 16}, .steps = 20, .seed = 2}));
}

TEST(Steps, ATraceThatDependsOnALengthNeedsOne) {
  EXPECT_THAT(steps_of(by_length(), {}), FailsWith(ErrorCode::invalid_argument, HasSubstr("length of a sequence")));
}

TEST(Steps, ARangeThatIsNoneIsRefused) {
  for (const LengthRange range :
       {LengthRange{9, 8}, LengthRange{0, 8}, LengthRange{0, ~0U}, LengthRange{1, kLongestSequence + 1}})
    EXPECT_THAT(steps_of(by_length(), {.random = range}),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a range of lengths")))
        << range.least << " " << range.most;
}

TEST(Steps, SoManyDifferentLengthsThatNothingHoldsThemAreRefused) {
  Trace large = by_length();
  large.events.resize(7);
  EXPECT_THAT(steps_of(large, {.random = LengthRange{1, kLongestSequence}, .steps = kLongestSequence}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("16777216 different lengths of 7 events")));
}

TEST(StepsOf, FixedSizesTakeNoLengths) {
  for (const StepRequest& request : {StepRequest{.tokens = 512}, StepRequest{.random = LengthRange{8, 16}}})
    EXPECT_THAT(steps_of(fixed(), request), FailsWith(ErrorCode::invalid_argument, HasSubstr("are fixed")));
}

}  // namespace
}  // namespace gpuwarden::memtrace
