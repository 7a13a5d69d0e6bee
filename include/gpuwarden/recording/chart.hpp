// SPDX-License-Identifier: Apache-2.0
// The geometry of charts: bins of time, axes, paths of SVG. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/telemetry/history.hpp"

namespace gpuwarden::recording {

/// Equal bins of time from `from` on.
struct Grid {
  telemetry::WallTime from{};
  std::chrono::milliseconds step{1};
  std::size_t bins = 1;
};
/// At most `most` bins over the window, none shorter than `shortest`.
Grid grid_of(const telemetry::Window& window, std::size_t most, std::chrono::milliseconds shortest);

/// What a series was in one bin.
struct Bin {
  double min = 0;
  double mean = 0;
  double max = 0;
  bool operator==(const Bin&) const = default;
};
using Bins = std::vector<std::optional<Bin>>;
/// A series on a grid; a bin without a reading, though one was due, is empty. Readings that are farther apart than a
/// bin stand for the bins up to the next one.
Bins resample(const telemetry::Series& series, const Grid& grid);

struct Tick {
  double value = 0;
  std::string text;
};
/// An axis from 0 (or `low`) to a round number.
struct Axis {
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks;
};
/// For values up to `highest` in a metric's unit; bytes are divided by powers of two, percent always ends at 100.
Axis value_axis(double highest, std::string_view unit);
/// Ticks of a grid at round times: seconds since its begin as values; "14:05" or, with `relative`, "5 min".
Axis time_axis(const Grid& grid, bool relative = false);

/// A rectangle in which bins are drawn, in SVG's user units.
struct Frame {
  double left = 0;
  double top = 0;
  double width = 1;
  double height = 1;
};
double x_of(const Frame& frame, std::size_t bins, double bin);
double y_of(const Frame& frame, const Axis& axis, double value);
/// "M1 2L3 4": the means, broken at empty bins. A lone bin is a short stroke.
std::string line_path(const Bins& bins, const Frame& frame, const Axis& axis);
/// The area between least and most, broken at empty bins; empty where they are equal throughout.
std::string band_path(const Bins& bins, const Frame& frame, const Axis& axis);

}  // namespace gpuwarden::recording
