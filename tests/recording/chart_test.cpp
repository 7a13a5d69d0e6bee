// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/chart.hpp"

#include "recording/recordings.hpp"

namespace gpuwarden::recording {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::noon;
using telemetry::Point;
using telemetry::Series;

Series series_of(const std::vector<std::pair<int, double>>& values) {
  Series series;
  for (const auto& [second, value] : values)
    series.points.push_back(Point{noon() + std::chrono::seconds(second), value, value, value, 1});
  return series;
}

TEST(Grid, HasNoMoreBinsThanAskedForAndNoneShorterThanAReading) {
  const Grid day = grid_of({noon(), noon() + 24h}, 600, 1s);
  EXPECT_EQ(day.bins, 600U);
  EXPECT_EQ(day.step, 144s);
  const Grid minute = grid_of({noon(), noon() + 60s}, 600, 5s);
  EXPECT_EQ(minute.bins, 12U);
  const Grid moment = grid_of({noon(), noon()}, 600, 0ms);
  EXPECT_EQ(moment.bins, 1U);
}

TEST(Grid, AReadingStandsUntilTheNextAndAGapStaysEmpty) {
  const Grid grid{noon(), 1s, 20};
  const Bins bins = resample(series_of({{0, 10}, {2, 20}, {4, 30}, {6, 40}, {16, 50}, {18, 60}}), grid);
  ASSERT_EQ(bins.size(), 20U);
  EXPECT_EQ(bins[0], (Bin{10, 10, 10}));
  EXPECT_EQ(bins[1], (Bin{10, 10, 10})) << "the reading before stands for it";
  EXPECT_EQ(bins[2]->mean, 20);
  EXPECT_EQ(bins[7]->mean, 40);
  for (const std::size_t hole : {8U, 12U, 15U}) EXPECT_FALSE(bins[hole]) << hole;
  EXPECT_EQ(bins[16]->mean, 50);
}

TEST(Grid, ManyReadingsOfABinBecomeLeastMeanAndMost) {
  const Grid grid{noon(), 10s, 2};
  const Bins bins = resample(series_of({{0, 10}, {4, 20}, {8, 90}, {12, 5}, {16, 5}}), grid);
  EXPECT_EQ(bins[0], (Bin{10, 40, 90}));
  EXPECT_EQ(bins[1], (Bin{5, 5, 5}));
}

TEST(Grid, TheLastReadingAtTheVeryEndIsKept) {
  const Bins bins = resample(series_of({{0, 1}, {10, 7}}), Grid{noon(), 5s, 2});
  EXPECT_EQ(bins[1]->max, 7);
  EXPECT_TRUE(resample(Series{}, Grid{noon(), 5s, 2}) == Bins(2));
}

TEST(Axis, EndsAtARoundNumberAboveTheHighest) {
  EXPECT_EQ(value_axis(37, "%").high, 100) << "shares are seen against the whole";
  const Axis watts = value_axis(700, "W");
  EXPECT_EQ(watts.high, 800);
  EXPECT_EQ(watts.ticks.back().text, "800 W");
  EXPECT_EQ(value_axis(80.0 * (1 << 30), "B").high, 96.0 * (1 << 30));
  EXPECT_EQ(value_axis(0, "W").high, 1);
  EXPECT_EQ(value_axis(std::nan(""), "W").high, 1);
}

TEST(Axis, TimeTicksStandAtRoundTimes) {
  const Axis axis = time_axis(Grid{noon() + 130s, 10s, 180});
  ASSERT_GE(axis.ticks.size(), 4U);
  EXPECT_EQ(axis.ticks[0].text, "12:05");
  EXPECT_EQ(axis.ticks[0].value, 170);
  EXPECT_EQ(axis.ticks[1].text, "12:10");
  const Axis relative = time_axis(Grid{noon(), 10s, 180}, true);
  EXPECT_EQ(relative.ticks[0].text, "0");
  EXPECT_EQ(relative.ticks[1].text, "5 min");
  EXPECT_LE(time_axis(Grid{noon(), 24h, 600}).ticks.size(), 25U) << "two years";
}

TEST(Paths, AreBrokenWhereNothingIsKnown) {
  const Frame frame{0, 0, 40, 100};
  const Axis axis{0, 100, {}};
  const Bins bins{Bin{0, 50, 100}, Bin{0, 100, 100}, std::nullopt, Bin{0, 0, 10}};
  EXPECT_EQ(line_path(bins, frame, axis), "M5.0 50.0L15.0 0.0M35.0 100.0h5.0");
  EXPECT_EQ(band_path(bins, frame, axis), "M5.0 0.0L15.0 0.0L15.0 100.0L5.0 100.0ZM35.0 90.0L35.0 100.0Z");
}

TEST(Paths, AFlatBandIsNotDrawnAndValuesStayInTheFrame) {
  const Frame frame{0, 10, 40, 100};
  const Axis axis{0, 100, {}};
  EXPECT_EQ(band_path({Bin{5, 5, 5}, std::nullopt}, frame, axis), "");
  EXPECT_EQ(y_of(frame, axis, 500), 10);
  EXPECT_EQ(y_of(frame, axis, -5), 110);
  EXPECT_EQ(line_path(Bins(3), frame, axis), "");
}

}  // namespace
}  // namespace gpuwarden::recording
