// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/candidate_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diagnosis/candidate_texts.hpp"

namespace gpuwarden::diagnosis {
namespace {

using namespace std::string_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<std::string> kLiterals{"needle", "haystack", "xid"};

/// In pieces of `piece` bytes.
Report read(std::string_view text, std::size_t piece = std::string_view::npos) {
  return read_in_pieces(kLiterals, text, [piece](std::size_t rest) { return std::min(rest, piece); });
}

std::vector<std::string> lines_of(const Report& report) {
  std::vector<std::string> lines;
  for (const Found& found : report.found) lines.push_back(found.line);
  return lines;
}

TEST(CandidateReader, GivesTheLinesInWhichLiteralsStand) {
  const Report report = read("one\nthe Needle\nthree\nneedles in a haystack, a needle\n\nlast XID");
  ASSERT_THAT(report.found, SizeIs(3));
  EXPECT_EQ(report.found[0],
            (Found{2, "the Needle", true, {0}, {"one"}, {"three", "needles in a haystack, a needle", "", "last XID"}}));
  EXPECT_EQ(report.found[1].number, 4U);
  EXPECT_THAT(report.found[1].literals, ElementsAre(0, 1));
  EXPECT_THAT(report.found[1].before, ElementsAre("three", "the Needle", "one"));
  EXPECT_EQ(report.found[2], (Found{6, "last XID", true, {2}, {"", "needles in a haystack, a needle", "three"}, {}}));
  EXPECT_EQ(report.lines, 6U);
}

TEST(CandidateReader, CountsLinesAndBytesOfTextsWithoutCandidates) {
  EXPECT_EQ(read("").lines, 0U);
  EXPECT_EQ(read("\n").lines, 1U);
  EXPECT_EQ(read("a").lines, 1U);
  EXPECT_EQ(read("a\nb").lines, 2U);
  std::string many;
  for (int i = 0; i < 300000; ++i) many += std::string(static_cast<std::size_t>(i % 23), 'x') + '\n';
  EXPECT_EQ(read(many).lines, 300000U);
  EXPECT_EQ(read(many, 1000).bytes, many.size());
}

TEST(CandidateReader, LineEndsOfWindowsAreNoPartOfALine) {
  const Report report = read("before\r\na needle\r\nafter\r\nhaystack\r\r\n");
  EXPECT_THAT(lines_of(report), ElementsAre("a needle", "haystack"));
  EXPECT_THAT(report.found[0].before, ElementsAre("before"));
  EXPECT_THAT(report.found[0].after, ElementsAre("after", "haystack"));
}

TEST(CandidateReader, ACarriageReturnWithinALineDoesNotEndIt) {
  const Report report = read("10%\r20%\rneedle\r30%\nnext");
  EXPECT_THAT(lines_of(report), ElementsAre("10%\r20%\rneedle\r30%"));
  EXPECT_EQ(report.lines, 2U);
}

TEST(CandidateReader, OfALongProgressBarTheTextFromTheLastCarriageReturnOnIsGiven) {
  std::string bar;
  for (int i = 0; i < 5000; ++i) bar += "\rstep " + std::to_string(i) + " of 5000";
  const Report report = read("begin\n" + bar + "\rError: a needle\nafter\n");
  ASSERT_THAT(report.found, SizeIs(1));
  EXPECT_EQ(report.found[0], (Found{2, "Error: a needle", false, {0}, {}, {"after"}}));
}

TEST(CandidateReader, ReadsOnBehindGapsOfNuls) {
  const Report report = read("begin\n" + std::string(3000000, '\0') + "a needle\nafter\na\0needle"s);
  ASSERT_THAT(report.found, SizeIs(2));
  EXPECT_EQ(report.found[0], (Found{2, "a needle", false, {0}, {}, {"after", "a\0needle"s}}));
  EXPECT_EQ(report.found[1].line, "a\0needle"s);
}

TEST(CandidateReader, GivesThreeLinesBeforeAndTheNextOnes) {
  std::string text;
  for (int i = 1; i <= 200; ++i) text += i == 50 ? "needle\n" : std::to_string(i) + "\n";
  const Report report = read(text);
  ASSERT_THAT(report.found, SizeIs(1));
  EXPECT_THAT(report.found[0].before, ElementsAre("49", "48", "47"));
  ASSERT_THAT(report.found[0].after, SizeIs(kMostAfter));
  EXPECT_EQ(report.found[0].after.front(), "51");
  EXPECT_EQ(report.found[0].after.back(), std::to_string(50 + kMostAfter));
}

TEST(CandidateReader, GivesAsFewNeighboursAsAreAskedFor) {
  const LiteralScanner scanner(kLiterals);
  CandidateReader reader(scanner, [](const Candidate& candidate) {
    EXPECT_THAT(candidate.before(1), ElementsAre("2"));
    EXPECT_THAT(candidate.after(2), ElementsAre("3", "4"));
    EXPECT_THAT(candidate.before(0), IsEmpty());
    EXPECT_THAT(candidate.after(1000), ElementsAre("3", "4", "5"));
  });
  reader.feed("1\n2\nneedle\n3\n4\n5\n");
  reader.finish();
}

TEST(CandidateReader, CutsLongNeighboursBetweenCharacters) {
  std::string wide;
  while (wide.size() < 10000) wide += "\xE2\x82\xAC";
  const Report report = read(wide + "\nneedle\n" + wide + "\nend\n");
  ASSERT_THAT(report.found, SizeIs(1));
  EXPECT_THAT(report.found[0].before, ElementsAre(wide.substr(0, 4095)));
  EXPECT_THAT(report.found[0].after, ElementsAre(wide.substr(0, 4095), "end"));
}

TEST(CandidateReader, DoesNotLookForNeighboursTooFarAway) {
  const std::string behind(kLookBehind, 'b');
  const std::string ahead(kLookAhead, 'a');
  const Report report = read("first\n" + behind + "\nneedle\nnext\n" + ahead + "\nfar\n");
  ASSERT_THAT(report.found, SizeIs(1));
  EXPECT_THAT(report.found[0].before, IsEmpty());
  EXPECT_THAT(report.found[0].after, ElementsAre("next", ahead.substr(0, kLongestNeighbour)));
}

TEST(CandidateReader, TheLongestLineIsStillGivenWhole) {
  const std::string line = "needle" + std::string(kLongestLine - 6, '.');
  const Report whole = read("a\n" + line + "\nb");
  EXPECT_THAT(lines_of(whole), ElementsAre(line));
  EXPECT_TRUE(whole.found[0].whole);
  const Report longer = read("a\n" + line + ".\nb");
  EXPECT_THAT(lines_of(longer), ElementsAre(line));
  EXPECT_FALSE(longer.found[0].whole);
  EXPECT_THAT(longer.found[0].after, ElementsAre("b"));
}

TEST(CandidateReader, OfALongerLineAStretchAroundEachLiteralIsGiven) {
  std::string line(100000, '.');
  line.replace(5000, 6, "needle");
  line.replace(6000, 8, "haystack");
  line.replace(90000, 3, "xid");
  const Report report = read("a\n" + line + "\nb\n");
  ASSERT_THAT(report.found, SizeIs(2));
  EXPECT_EQ(report.found[0].line, line.substr(5000 - kStretchLead, kLongestLine));
  EXPECT_THAT(report.found[0].literals, ElementsAre(0, 1));
  EXPECT_THAT(report.found[0].before, ElementsAre("a"));
  EXPECT_EQ(report.found[1].line, line.substr(90000 - kStretchLead));
  EXPECT_THAT(report.found[1].literals, ElementsAre(2));
  EXPECT_THAT(report.found[1].after, ElementsAre("b"));
  EXPECT_THAT(report.found, Each(Field(&Found::number, 2)));
}

TEST(CandidateReader, AStretchNamesAllLiteralsThatStandInIt) {
  std::string line(50000, '.');
  const std::size_t end = kLongestLine;  // of the first stretch
  line.replace(10, 6, "needle");
  line.replace(end - 20, 8, "haystack");
  line.replace(end - 1, 3, "xid");  // over the edge
  const Report report = read(line);
  ASSERT_THAT(report.found, SizeIs(2));
  EXPECT_THAT(report.found[0].literals, ElementsAre(0, 1));
  EXPECT_THAT(report.found[1].literals, ElementsAre(1, 2));
}

TEST(CandidateReader, StretchesBeginAndEndBetweenCharacters) {
  std::string wide;
  while (wide.size() < 20001) wide += "\xE2\x82\xAC";
  const Report report = read(wide + "needle" + wide);
  ASSERT_THAT(report.found, SizeIs(1));
  EXPECT_TRUE(report.found[0].line.starts_with("\xE2\x82\xAC"));
  EXPECT_TRUE(report.found[0].line.ends_with("\xE2\x82\xAC"));
  EXPECT_GT(report.found[0].line.size(), kLongestLine - 6);
}

TEST(CandidateReader, AHugeLineFullOfLiteralsGivesOverlappingStretchesThatCoverIt) {
  std::string line;
  while (line.size() < (std::size_t{20} << 20)) line += "needle ";
  const Report report =
      read_in_pieces(kLiterals, line, [](std::size_t rest) { return std::min<std::size_t>(rest, 65536); }, false);
  EXPECT_LE(report.found.size(), line.size() / (kLongestLine - kStretchLead - 16) + 1);
  EXPECT_GE(report.found.size(), line.size() / kLongestLine);
  EXPECT_THAT(report.found, Each(Field(&Found::number, 1)));
  EXPECT_TRUE(report.found.back().line.ends_with("needle "));
}

TEST(CandidateReader, ReadsUtf16WithAMarkOfEitherOrder) {
  const std::u16string text = u"one\r\na needle \u20AC \U0001F600\r\nthree \xD800!\r\n";
  for (const bool little : {true, false}) {
    const Report report = read(utf16(text, little), 1);
    ASSERT_THAT(report.found, SizeIs(1));
    EXPECT_EQ(report.found[0], (Found{2, "a needle \u20AC \U0001F600", true, {0}, {"one"}, {"three \uFFFD!"}}));
    EXPECT_EQ(report.lines, 3U);
  }
}

TEST(CandidateReader, WhatIsTornInUtf16BecomesAReplacement) {
  EXPECT_THAT(lines_of(read("\xFF\xFEn\0e\0e\0d\0l\0e\0!"s)), ElementsAre("needle\uFFFD"));
  EXPECT_THAT(lines_of(read("\xFF\xFEn\0e\0e\0d\0l\0e\0\x00\xD8"s)), ElementsAre("needle\uFFFD"));
  EXPECT_THAT(lines_of(read("\xFF\xFEn\0e\0e\0d\0l\0e\0\x00\xDC"s)), ElementsAre("needle\uFFFD"));
}

TEST(CandidateReader, AUtf8MarkIsNoPartOfTheFirstLine) {
  EXPECT_THAT(lines_of(read("\xEF\xBB\xBFneedle\n")), ElementsAre("needle"));
  EXPECT_THAT(lines_of(read("\xEF\xBB\xBFneedle\n", 1)), ElementsAre("needle"));
  EXPECT_THAT(lines_of(read("\xEF\xBBneedle", 1)), ElementsAre("\xEF\xBBneedle"));
  EXPECT_EQ(read("\xEF\xBB\xBF").lines, 0U);
  EXPECT_EQ(read("\xFF\xFE").lines, 0U);
  EXPECT_EQ(read("\xFF").lines, 1U);
}

TEST(CandidateReader, FindsWhatReadingTheWholeTextFinds) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::string text = random_log(kLiterals, seed, seed % 4 == 0 ? 4000000 : 200000);
    const Report expected = read_simply(kLiterals, text);
    const Report report = read(text);
    EXPECT_GT(expected.found.size(), text.size() / 20000) << seed;
    EXPECT_EQ(report.lines, expected.lines) << seed;
    ASSERT_EQ(report.found.size(), expected.found.size()) << seed;
    for (std::size_t i = 0; i < report.found.size(); ++i)
      ASSERT_EQ(report.found[i], expected.found[i]) << seed << " " << i;
  }
}

TEST(CandidateReader, FindsTheSameHoweverTheTextIsCut) {
  for (unsigned seed = 100; seed < 108; ++seed) {
    std::string text = random_log(kLiterals, seed, seed % 2 == 0 ? 3500000 : 60000);
    if (seed % 3 == 0) text = "\xFF\xFE" + text;
    const Report expected = read(text);
    std::mt19937 random(seed);
    const std::size_t most = seed % 2 == 0 ? 20000 : 7;
    const Report report =
        read_in_pieces(kLiterals, text, [&](std::size_t rest) { return std::min(rest, 1 + random() % most); });
    EXPECT_EQ(report, expected) << seed;
  }
}

TEST(CandidateReader, ALiteralAtEveryPlaceOfABlockIsFoundOnce) {
  // Around the place where the first block ends, whatever its size is.
  const LiteralScanner scanner(kLiterals);
  const std::string filler(63, '.');
  for (std::size_t shift = 0; shift < 64; shift += 3) {
    std::string text(shift, '-');
    std::size_t needles = 0;
    while (text.size() < 3000000) {
      text += filler + (needles % 2 == 0 ? "\n" : "") + "needle";
      ++needles;
    }
    std::size_t lines = 0;
    CandidateReader reader(scanner, [&](const Candidate&) { ++lines; });
    reader.feed(text);
    reader.finish();
    ASSERT_EQ(lines, (needles + 1) / 2) << shift;
  }
}

}  // namespace
}  // namespace gpuwarden::diagnosis
