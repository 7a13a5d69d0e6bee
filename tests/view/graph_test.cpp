// SPDX-License-Identifier: Apache-2.0
#include "view/graph.hpp"

#include <cmath>

#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

const float kGap = std::nanf("");

std::string graph_text(Extent extent, const std::vector<float>& values, Glyphs glyphs, Axis axis = {}) {
  Canvas canvas(extent, glyphs == Glyphs::ascii);
  draw_graph(canvas, {0, 0, extent.width, extent.height}, values, axis, {.glyphs = glyphs, .tone = {}});
  return canvas.text();
}

TEST(Graph, HasTwoValuesInACellWithTheNewestAtTheRight) {
  EXPECT_EQ(graph_text({3, 1}, {25, 50, 75, 100}, Glyphs::braille), " ⣠⣾\n");
  EXPECT_EQ(graph_text({2, 1}, {0, 25, 50, 75, 100}, Glyphs::braille), "⣠⣾\n") << "the oldest is left out";
  EXPECT_EQ(graph_text({2, 2}, {50, 100, 100}, Glyphs::braille), " ⣿\n⢸⣿\n");
}

TEST(Graph, GrowsOverRowsFromTheBottom) {
  EXPECT_EQ(graph_text({1, 2}, {100, 50}, Glyphs::braille), "⡇\n⣿\n");
  EXPECT_EQ(graph_text({2, 2}, {100, 50}, Glyphs::block), "█\n██\n");
  EXPECT_EQ(graph_text({3, 1}, {0, 50, 100}, Glyphs::block), "▁▄█\n") << "what is known shows, be it nothing";
  EXPECT_EQ(graph_text({3, 1}, {0, 60, 100}, Glyphs::ascii), ".:|\n");
}

TEST(Graph, LeavesAGapWhereNothingIsKnown) {
  EXPECT_EQ(graph_text({3, 1}, {100, 100, kGap, kGap, 100, 100}, Glyphs::braille), "⣿ ⣿\n");
  EXPECT_EQ(graph_text({2, 1}, {100, kGap}, Glyphs::braille), " ⡇\n");
  EXPECT_EQ(graph_text({2, 1}, {}, Glyphs::braille), "\n");
}

TEST(Graph, StaysWithinItsAxis) {
  EXPECT_EQ(graph_text({1, 1}, {500, -500}, Glyphs::braille), "⣇\n");
  EXPECT_EQ((Axis{20, 90}.share_of(55)), 0.5);
  EXPECT_EQ((Axis{5, 5}.share_of(5)), 0) << "an axis without extent";
}

std::string bar_text(int width, std::optional<double> share, std::string_view text, Glyphs glyphs) {
  Canvas canvas({width, 1}, glyphs == Glyphs::ascii);
  draw_bar(canvas, {0, 0, width, 1}, share, text, {.glyphs = glyphs, .tone = {}});
  return canvas.row(0);
}

TEST(Bar, FillsInEighthsBesideItsText) {
  EXPECT_EQ(bar_text(12, 0.5, "50%", Glyphs::block), "████···· 50%");
  EXPECT_EQ(bar_text(8, 0.28, "28%", Glyphs::block), "█▏·· 28%");
  EXPECT_EQ(bar_text(12, 1.7, "170%", Glyphs::braille), "███████ 170%");
  EXPECT_EQ(bar_text(12, std::nullopt, "n/a", Glyphs::block), "········ n/a");
}

TEST(Bar, IsFramedInAscii) {
  EXPECT_EQ(bar_text(12, 0.5, "50%", Glyphs::ascii), "[||||   50%]");
  EXPECT_EQ(bar_text(5, 0.5, "50%", Glyphs::ascii), "| 50%") << "no frame where there is no room";
  EXPECT_EQ(bar_text(3, 0.5, "50%", Glyphs::ascii), "50%");
}

}  // namespace
}  // namespace gpuwarden::view
