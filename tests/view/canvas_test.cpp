// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/canvas.hpp"

#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

TEST(Canvas, PutsTextAndCutsWhatIsOutside) {
  Canvas canvas({6, 2});
  EXPECT_EQ(canvas.put({4, 0}, "abc"), 2);
  EXPECT_EQ(canvas.put({-1, 1}, "abc"), 3);
  canvas.put({0, 7}, "below");
  EXPECT_EQ(canvas.text(), "    ab\nbc\n");
}

TEST(Canvas, MarksWhereATextWasCut) {
  Canvas canvas({10, 2});
  EXPECT_EQ(canvas.put({0, 0}, "python train.py", Tone::plain, 6), 6);
  EXPECT_EQ(canvas.row(0), "pytho…");
  Canvas ascii({10, 1}, true);
  ascii.put({0, 0}, "python train.py", Tone::plain, 6);
  EXPECT_EQ(ascii.row(0), "pytho~");
  canvas.put_right({10, 1}, "1234567890123", Tone::plain, 4);
  EXPECT_EQ(canvas.row(1), "      123…");
}

TEST(Canvas, CountsWideGlyphsTwiceAndNeverSplitsThem) {
  Canvas canvas({5, 1});
  EXPECT_EQ(display_width("訓練"), 4);
  EXPECT_EQ(canvas.put({0, 0}, "訓練x"), 5);
  EXPECT_EQ(canvas.row(0), "訓練x");
  canvas.put({1, 0}, "|");
  EXPECT_EQ(canvas.row(0), " |練x") << "half a glyph is none";
  Canvas narrow({3, 1});
  narrow.put({0, 0}, "訓練", Tone::plain, 3);
  EXPECT_EQ(narrow.row(0), "訓…");
}

TEST(Canvas, MakesForeignTextHarmless) {
  Canvas canvas({20, 1});
  canvas.put({0, 0},
             "a\x1b[2J\n\xff\xe2\x80\xae"
             "b");
  EXPECT_EQ(canvas.row(0), "a?[2J???b");
  Canvas ascii({5, 1}, true);
  ascii.put({0, 0}, "ö訓x");
  EXPECT_EQ(ascii.row(0), "??x");
}

TEST(Canvas, WritesColoursOnlyWhereTheyAreWanted) {
  Canvas canvas({4, 1});
  canvas.put({0, 0}, "ab", Tone::fault);
  EXPECT_EQ(to_text(canvas, Colours::none), "ab\n");
  EXPECT_EQ(to_text(canvas, Colours::eight), "\x1b[1;31mab\x1b[0m\n");
  EXPECT_EQ(to_text(canvas, Colours::many), "\x1b[1;38;5;203mab\x1b[0m\n");
  Canvas plain({4, 1});
  plain.put({0, 0}, "ab");
  EXPECT_EQ(to_text(plain, Colours::many), "ab\n");
}

TEST(Canvas, LoadIsNeverTheColourOfAFault) {
  EXPECT_EQ(load_tone(0), Tone::load0);
  EXPECT_EQ(load_tone(1), Tone::load4);
  EXPECT_EQ(load_tone(-3), Tone::load0);
  EXPECT_EQ(load_tone(std::nan("")), Tone::load0);
}

}  // namespace
}  // namespace gpuwarden::view
