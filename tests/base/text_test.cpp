// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/text.hpp"

#include "support/matchers.hpp"

namespace gpuwarden {
namespace {

using namespace gpuwarden::testing;
using ::testing::_;

TEST(ParseSize, KnowsBinaryAndDecimalUnits) {
  EXPECT_THAT(parse_size("32GiB"), IsOkAnd(32_GiB));
  EXPECT_THAT(parse_size(" 1.5 GiB "), IsOkAnd(1536_MiB));
  EXPECT_THAT(parse_size("2gb"), IsOkAnd(Bytes(2'000'000'000)));
  EXPECT_THAT(parse_size("512M"), IsOkAnd(512_MiB));
  EXPECT_THAT(parse_size("0"), IsOkAnd(0_B));
}

TEST(ParseSize, RefusesNonsense) {
  for (const char* text : {"", "32GiBB", "-1GiB", "GiB", "1..2GiB", "nan", "inf", "9000000TiB", "1 2 GiB", "0x10"}) {
    EXPECT_THAT(parse_size(text), FailsWith(ErrorCode::invalid_argument, _)) << text;
  }
}

TEST(ParseDuration, KnowsUnitsAndSums) {
  EXPECT_THAT(parse_duration("500ms"), IsOkAnd(std::chrono::milliseconds(500)));
  EXPECT_THAT(parse_duration("1h30m"), IsOkAnd(std::chrono::minutes(90)));
  EXPECT_THAT(parse_duration("90"), IsOkAnd(std::chrono::seconds(90)));
  EXPECT_THAT(parse_duration("0.5s"), IsOkAnd(std::chrono::milliseconds(500)));
}

TEST(ParseDuration, RefusesNonsense) {
  for (const char* text : {"", "-5s", "5 parsecs", "s", "99999d"}) {
    EXPECT_THAT(parse_duration(text), FailsWith(ErrorCode::invalid_argument, _)) << text;
  }
}

TEST(ParseNumbers, TakeTheWholeTextOrNothing) {
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("12 "), std::nullopt);
  EXPECT_EQ(parse_integer("99999999999999999999"), std::nullopt);
  EXPECT_EQ(parse_number("2.5"), 2.5);
  EXPECT_EQ(parse_number("nan"), std::nullopt);
}

TEST(FormatSize, ShowsOneDecimalWhereItTells) {
  EXPECT_EQ(format_size(0_B), "0 B");
  EXPECT_EQ(format_size(80_GiB), "80 GiB");
  EXPECT_EQ(format_size(1536_MiB), "1.5 GiB");
  EXPECT_EQ(format_size(Bytes((150_GiB).value + (512_MiB).value)), "150 GiB");
}

TEST(FormatDuration, ShowsTheTwoLargestUnits) {
  EXPECT_EQ(format_duration(std::chrono::milliseconds(850)), "850 ms");
  EXPECT_EQ(format_duration(std::chrono::seconds(42)), "42 s");
  EXPECT_EQ(format_duration(std::chrono::minutes(192)), "3 h 12 min");
}

TEST(FormatUtc, IsRfc3339) {
  EXPECT_EQ(format_utc(std::chrono::system_clock::time_point(std::chrono::seconds(0))), "1970-01-01T00:00:00Z");
}

TEST(Printable, DefusesEscapesAndInvalidUtf8ButKeepsLetters) {
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a?[31mb?");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable("\xff\xc0\x80"), "???");
  EXPECT_EQ(printable("\xc2\x9b"), "??");
}

TEST(Case, ChangesLettersOfAsciiAlone) {
  EXPECT_EQ(to_upper("cuda_Visible-1 straße"), "CUDA_VISIBLE-1 STRAßE");
  EXPECT_EQ(to_lower("GeForce RTX É"), "geforce rtx É");
}

TEST(Counted, OneIsNoPlural) {
  EXPECT_EQ(counted(0, "GPU"), "0 GPUs");
  EXPECT_EQ(counted(1, "GPU", "GPUs of it"), "1 GPU");
  EXPECT_EQ(counted(2, "cause is", "causes are"), "2 causes are");
}

TEST(Spaced, HasBlanksOrAnotherJointForUnderscores) {
  EXPECT_EQ(spaced("not_answering_now"), "not answering now");
  EXPECT_EQ(spaced("not_answering", '-'), "not-answering");
  EXPECT_EQ(spaced(""), "");
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b", ','), ::testing::ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ::testing::ElementsAre(""));
  EXPECT_THAT(split_words("  a \t b\n"), ::testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace gpuwarden
