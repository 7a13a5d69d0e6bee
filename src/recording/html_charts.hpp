// SPDX-License-Identifier: Apache-2.0
// The charts of a page, as values and as SVG.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/recording/chart.hpp"
#include "gpuwarden/recording/html.hpp"

namespace gpuwarden::recording {

/// A metric over time, a line for each name of its set.
struct Chart {
  std::string_view metric;
  std::string_view title;
  std::string_view unit;
  double highest = 0;               ///< of what is drawn
  std::optional<double> reference;  ///< a limit drawn across: the memory there is, the power limit
  std::vector<Bins> lines;
};

/// Something that happened, as a mark across all charts.
struct Mark {
  std::chrono::milliseconds at{};  ///< since the grid's begin
  std::string text;
};

struct ChartSet {
  Grid grid;
  bool relative = false;           ///< times count from the beginning
  std::vector<std::string> names;  ///< "GPU 0"
  std::vector<Chart> charts;
  std::vector<Mark> marks;
};

/// A line for each GPU.
ChartSet charts_of(const Recording& readings, const Summary& summary, std::size_t most_points);
/// A line for each of two recordings: mean over GPUs, and a band from the lowest to the highest of them.
ChartSet charts_of_both(const Recording& a, const Recording& b, std::size_t most_points);

/// <figure> with the SVG.
std::string figure_of(const Chart& chart, const ChartSet& set);
/// The utilization of each GPU over time, as rows of colours; empty for a set without it.
std::string heat_map_of(const ChartSet& set);
/// What the script shows beside the cursor, as JSON that may stand in HTML.
std::string data_of(const ChartSet& set);

}  // namespace gpuwarden::recording
