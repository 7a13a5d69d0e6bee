// SPDX-License-Identifier: Apache-2.0
#include "strangers/screen.hpp"

namespace gpuwarden::testing {
namespace {

TEST(Screen, ShowsTextWhereTheCursorWasSentTo) {
  Screen screen(3, 10);
  screen.feed("one\r\ntwo\x1b[3;5Hthree\x1b[1;1HO");
  EXPECT_EQ(screen.text(), "One\ntwo\n    three\n");
  EXPECT_EQ(screen.find("three"), std::pair(2, 4));
  EXPECT_EQ(screen.find("four"), std::pair(-1, -1));
}

TEST(Screen, UnderstandsSequencesThatComeInPieces) {
  Screen screen(2, 10);
  for (const char c : std::string_view("\x1b(B\x1b)0\x1b[?7h\x1b[0;1;7m\x0f"
                                       "a\x1b[2Cb\x1b[Ac\bd"))
    screen.feed({&c, 1});
  EXPECT_EQ(screen.text(), "a  bd\n\n");
}

TEST(Screen, ErasesAsItIsTold) {
  Screen screen(3, 5);
  const auto fill = [&] { screen.feed("\x1b[H11111\x1b[2;1H22222\x1b[3;1H33333\x1b[2;3H"); };
  fill();
  screen.feed("\x1b[K");
  EXPECT_EQ(screen.text(), "11111\n22\n33333\n");
  fill();
  screen.feed("\x1b[1K");
  EXPECT_EQ(screen.text(), "11111\n   22\n33333\n");
  fill();
  screen.feed("\x1b[J");
  EXPECT_EQ(screen.text(), "11111\n22\n\n");
  screen.feed("\x1b[2J");
  EXPECT_EQ(screen.text(), "\n\n\n");
}

TEST(Screen, ScrollsAtItsLastLine) {
  Screen screen(2, 5);
  screen.feed("a\r\nb\r\nc");
  EXPECT_EQ(screen.text(), "b\nc\n");
}

TEST(Screen, CutsABlock) {
  Screen screen(3, 6);
  screen.feed("abcdef\r\nghijkl\r\nmnopqr");
  EXPECT_EQ(screen.block(1, 2, 2, 3), "ijk\nopq\n");
}

}  // namespace
}  // namespace gpuwarden::testing
