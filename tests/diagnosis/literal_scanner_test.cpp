// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/literal_scanner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuwarden::diagnosis {
namespace {

using Hits = std::vector<std::pair<std::size_t, std::uint32_t>>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Hits scan(const std::vector<std::string>& literals, std::string_view text) {
  const LiteralScanner scanner(literals);
  Hits hits;
  scanner.scan(text, [&](std::size_t begin, std::uint32_t literal) { hits.emplace_back(begin, literal); });
  return hits;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Hits look_everywhere(const std::vector<std::string>& literals, std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), lower);
  Hits hits;
  for (std::uint32_t i = 0; i < literals.size(); ++i) {
    if (literals[i].empty()) continue;
    for (std::size_t at = lowered.find(literals[i]); at != std::string::npos; at = lowered.find(literals[i], at + 1)) {
      hits.emplace_back(at, i);
    }
  }
  std::ranges::sort(hits);
  return hits;
}

/// Texts and literals of few different letters, so that much of them meets.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return random_() % bound; }
  std::string word(std::string_view alphabet, std::size_t length) {
    std::string text(length, '\0');
    for (char& c : text) c = alphabet[below(alphabet.size())];
    return text;
  }

 private:
  std::mt19937 random_;
};

TEST(LiteralScanner, FindsLiteralsWhateverTheirCase) {
  EXPECT_THAT(scan({"out of memory", "cuda error"}, "RuntimeError: CUDA error: Out Of Memory"),
              ElementsAre(Pair(14, 1), Pair(26, 0)));
}

TEST(LiteralScanner, MakesItsLiteralsLowerCase) {
  EXPECT_THAT(scan({"NVRM: Xid"}, "kernel: nvrm: xid"), ElementsAre(Pair(8, 0)));
}

TEST(LiteralScanner, FoldsLettersOnly) {
  // Each pair differs in the bit that tells the cases of a letter apart.
  EXPECT_THAT(scan({"[rank0]"}, "{rank0} [RANK0] [rank\x10]"), ElementsAre(Pair(8, 0)));
  EXPECT_THAT(scan({"a@b@c@d"}, "a`b`c`d A@B@C@D"), ElementsAre(Pair(8, 0)));
  EXPECT_THAT(scan({"\xC3\xA9tat nul"}, "\xC3\x89tat nul \xC3\xA9TAT NUL"), ElementsAre(Pair(10, 0)));
}

TEST(LiteralScanner, FindsThemAtBothEndsOfTheTextAndAsTheWholeOfIt) {
  for (const std::string literal : {"xid", "abcd", "nvrm!", "sigbus", "nvlinks", "watchdog", "fell off the bus"}) {
    const std::size_t length = literal.size();
    EXPECT_THAT(scan({literal}, literal), ElementsAre(Pair(0, 0))) << literal;
    EXPECT_THAT(scan({literal}, literal + literal), ElementsAre(Pair(0, 0), Pair(length, 0))) << literal;
    for (std::size_t i = 0; i < 70; ++i) {
      const std::string text = std::string(i, '.') + literal + std::string(i % 7, '.');
      EXPECT_THAT(scan({literal}, text), ElementsAre(Pair(i, 0))) << text;
    }
    EXPECT_THAT(scan({literal}, literal.substr(0, length - 1)), IsEmpty()) << literal;
    EXPECT_THAT(scan({literal}, literal.substr(1)), IsEmpty()) << literal;
  }
}

TEST(LiteralScanner, LineEndsAndNulsAreBytesLikeOthers) {
  using namespace std::string_literals;
  EXPECT_THAT(scan({"first\nsecond"s, "a\0b\0c\0d"s}, "first\nsecond a\0b\0c\0d"s),
              ElementsAre(Pair(0, 0), Pair(13, 1)));
}

TEST(LiteralScanner, FindsNothingWithoutLiteralsOrText) {
  EXPECT_THAT(scan({}, "some text"), IsEmpty());
  EXPECT_THAT(scan({""}, "some text"), IsEmpty());
  EXPECT_THAT(scan({"literal"}, ""), IsEmpty());
  EXPECT_EQ(LiteralScanner({}).longest(), 0U);
}

TEST(LiteralScanner, TellsEqualAndNestedLiteralsApart) {
  EXPECT_THAT(scan({"watchdog", "watch", "dog", "watchdog", "w"}, "WatchDog"),
              ElementsAre(Pair(0, 0), Pair(0, 1), Pair(0, 3), Pair(0, 4), Pair(5, 2)));
}

TEST(LiteralScanner, FindsWhatANaiveSearchFinds) {
  Dice dice(1);
  for (int round = 0; round < 400; ++round) {
    const std::string_view alphabet = round % 2 == 0 ? "ab" : "abcdefg :_";
    const std::size_t shortest = 1 + dice.below(9);
    std::vector<std::string> literals;
    for (std::size_t i = dice.below(40); i > 0; --i) literals.push_back(dice.word(alphabet, shortest + dice.below(20)));
    std::string text = dice.word(round % 2 == 0 ? "abAB" : "abcdefgABCDEFG :_\n", dice.below(3000));
    for (const std::string& literal : literals) {
      if (literal.size() <= text.size())
        text.replace(dice.below(text.size() - literal.size() + 1), literal.size(), literal);
    }
    ASSERT_EQ(scan(literals, text), look_everywhere(literals, text)) << round;
  }
}

TEST(LiteralScanner, GivesHitsInOrderAcrossTheChunksThatItWorksIn) {
  Dice dice(2);
  const std::vector<std::string> literals{"aab", "abbaab", "babababab", dice.word("ab", 25),
                                          std::string(300, 'a') + "b"};
  std::string text = dice.word("ab", 50000);
  for (std::size_t at = 0; at + 301 < text.size(); at += 8192 - 37) text.replace(at, 301, literals[4]);
  EXPECT_EQ(scan(literals, text), look_everywhere(literals, text));
}

TEST(LiteralScanner, ManyLiteralsAreAllFound) {
  Dice dice(3);
  std::vector<std::string> literals;
  for (int i = 0; i < 2000; ++i) literals.push_back(dice.word("abcdefghijklmnopqrstuvwxyz_ :", 6 + dice.below(55)));
  std::string text;
  for (const std::string& literal : literals)
    text += literal + dice.word("ABCDEFGHIJKLMNOPQRSTUVWXYZ \n", dice.below(30));
  const Hits hits = scan(literals, text);
  EXPECT_EQ(hits, look_everywhere(literals, text));
  EXPECT_GE(hits.size(), literals.size());
}

TEST(LiteralScanner, LooksForWhatTellsLiteralsApartThatBeginAlike) {
  Dice dice(4);
  std::vector<std::string> literals;
  for (int i = 0; i < 500; ++i) literals.push_back("cuda error: " + dice.word("abcdefghijklmnopqrstuvwxyz", 12));
  EXPECT_LT(LiteralScanner(literals).widest_bucket(), 50U);
}

// Each of these made a poor scanner crawl; here they end in well under a second.
TEST(LiteralScanner, TextsMadeToBeSlowAreReadToTheirEnd) {
  const std::size_t size = std::size_t{8} << 20;
  const std::string one_byte(size, 'a');
  EXPECT_EQ(scan({std::string(60, 'a') + "b", "b" + std::string(60, 'a'), "aaabaaa"}, one_byte).size(), 0U);
  EXPECT_EQ(scan({"aaaaaaaa"}, one_byte).size(), size - 7);

  std::vector<std::string> literals;
  std::string prefixes;
  for (int i = 0; i < 500; ++i) {
    literals.push_back("cuda error number " + std::to_string(1000 + i) + " happened");
    prefixes += literals.back().substr(0, literals.back().size() - 1);
  }
  std::string text;
  while (text.size() < size) text += prefixes;
  EXPECT_EQ(scan(literals, text).size(), 0U);
}

}  // namespace
}  // namespace gpuwarden::diagnosis
