// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/recording.hpp"
#include "gpuwarden/recording/words.hpp"

namespace gpuwarden::recording {
namespace {

using std::chrono::milliseconds;
using telemetry::Point;
using telemetry::WallTime;

/// 1, 2, 2.5 or 5 times a power of ten, so that about `count` of them reach the top.
double round_step(double top, double count) {
  const double raw = top / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

double round_bytes(double top, double count) { return std::exp2(std::ceil(std::log2(top / count))); }

constexpr auto kTimeSteps =
    std::to_array<int>({1,    2,    5,    10,    15,    30,    60,    120,    300,    600,    900,
                        1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000});

int time_step(double seconds, double count) {
  const auto* const step =
      std::ranges::find_if(kTimeSteps, [&](int one) { return static_cast<double>(one) * count >= seconds; });
  return step == kTimeSteps.end() ? kTimeSteps.back() : *step;
}

/// "14:05", "14:05:30", "21 Nov": as exact as the step between ticks.
std::string clock_text(WallTime time, int step) {
  constexpr int kMinute = 60;
  constexpr int kDay = 86400;
  std::string utc = format_utc(time);  // 2026-11-20T14:03:07Z
  if (utc.size() < 20) return utc;
  if (step >= kDay) return utc.substr(5, 5);
  return utc.substr(11, step < kMinute ? 8 : 5);
}

std::string relative_text(double seconds) {
  return seconds == 0 ? "0" : duration_text(milliseconds(std::llround(seconds * 1000)));
}

/// One value of a bin after another.
class BinSum {
 public:
  void add(const Point& point) {
    const double weight = std::max(1U, point.readings);
    if (weight_ == 0) bin_ = {point.min, 0, point.max};
    bin_.min = std::min(bin_.min, point.min);
    bin_.max = std::max(bin_.max, point.max);
    sum_ += point.mean * weight;
    weight_ += weight;
  }
  std::optional<Bin> bin() const {
    return weight_ > 0 ? std::optional(Bin{bin_.min, sum_ / weight_, bin_.max}) : std::nullopt;
  }

 private:
  Bin bin_;
  double sum_ = 0;
  double weight_ = 0;
};

std::string point_text(char command, double x, double y) { return fmt::format("{}{:.1f} {:.1f}", command, x, y); }

struct Run {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Bins next to each other that are not empty.
std::vector<Run> runs_of(const Bins& bins) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (!bins[i]) continue;
    if (runs.empty() || runs.back().last + 1 != i) runs.push_back({i, i});
    runs.back().last = i;
  }
  return runs;
}

}  // namespace

Grid grid_of(const telemetry::Window& window, std::size_t most, milliseconds shortest) {
  const auto length = std::max(milliseconds(1), std::chrono::ceil<milliseconds>(window.to - window.from));
  const auto count = static_cast<milliseconds::rep>(std::max<std::size_t>(most, 1));
  Grid grid;
  grid.from = window.from;
  grid.step = std::max({milliseconds(1), shortest, milliseconds((length.count() + count - 1) / count)});
  grid.bins = static_cast<std::size_t>((length.count() + grid.step.count() - 1) / grid.step.count());
  return grid;
}

Bins resample(const telemetry::Series& series, const Grid& grid) {
  std::vector<BinSum> sums(grid.bins);
  const auto last = static_cast<std::int64_t>(grid.bins) - 1;
  for_each_stretch(series, [&](const Point& point, milliseconds lasted) {
    const auto offset = std::chrono::floor<milliseconds>(point.time - grid.from).count();
    // The reading at the very end belongs to the last bin.
    const auto first = std::min<std::int64_t>(offset / grid.step.count(), last);
    if (offset < 0 || offset > (last + 1) * grid.step.count()) return;
    const auto until =
        std::min<std::int64_t>((offset + std::max<std::int64_t>(lasted.count() - 1, 0)) / grid.step.count(), last);
    sums[static_cast<std::size_t>(first)].add(point);
    for (auto bin = first + 1; bin <= until; ++bin) {
      // The next reading has its own begin; what is before it is this one's.
      if ((bin + 1) * grid.step.count() <= offset + lasted.count()) sums[static_cast<std::size_t>(bin)].add(point);
    }
  });
  Bins bins;
  for (const BinSum& sum : sums) bins.push_back(sum.bin());
  return bins;
}

Axis value_axis(double highest, std::string_view unit) {
  constexpr double kTicks = 4;
  constexpr double kSlack = 1e-9;
  const bool percent = unit == "%";
  const double top = percent ? 100 : std::isfinite(highest) && highest > 0 ? highest : 1;
  const double step = percent ? 25 : unit == "B" ? round_bytes(top, kTicks) : round_step(top, kTicks);
  Axis axis;
  axis.high = std::ceil(top / step - kSlack) * step;
  for (double value = 0; value <= axis.high + step * kSlack; value += step)
    axis.ticks.push_back({value, quantity_text(value, unit)});
  return axis;
}

Axis time_axis(const Grid& grid, bool relative) {
  constexpr double kTicks = 7;
  using namespace std::chrono;
  Axis axis;
  axis.high = static_cast<double>(grid.step.count()) * static_cast<double>(grid.bins) / 1000;
  const int step = time_step(axis.high, kTicks);
  const auto begin = duration_cast<milliseconds>(grid.from.time_since_epoch()).count();
  const std::int64_t every = std::int64_t{step} * 1000;
  const std::int64_t first = relative ? 0 : (every - begin % every) % every;
  for (std::int64_t at = first; static_cast<double>(at) <= axis.high * 1000; at += every) {
    const double seconds = static_cast<double>(at) / 1000;
    axis.ticks.push_back({seconds, relative ? relative_text(seconds) : clock_text(grid.from + milliseconds(at), step)});
  }
  return axis;
}

double x_of(const Frame& frame, std::size_t bins, double bin) {
  // A bin's middle.
  return frame.left + (bin + 0.5) / static_cast<double>(std::max<std::size_t>(bins, 1)) * frame.width;
}

double y_of(const Frame& frame, const Axis& axis, double value) {
  const double share = axis.high > axis.low ? (value - axis.low) / (axis.high - axis.low) : 0;
  return frame.top + (1 - std::clamp(share, 0.0, 1.0)) * frame.height;
}

std::string line_path(const Bins& bins, const Frame& frame, const Axis& axis) {
  std::string path;
  for (const Run& run : runs_of(bins)) {
    for (std::size_t i = run.first; i <= run.last; ++i)
      path += point_text(i == run.first ? 'M' : 'L', x_of(frame, bins.size(), static_cast<double>(i)),
                         y_of(frame, axis, bins[i]->mean));
    if (run.first != run.last) continue;
    // A line to itself would not be seen.
    path += fmt::format("h{:.1f}", std::max(1.0, frame.width / static_cast<double>(bins.size()) / 2));
  }
  return path;
}

std::string band_path(const Bins& bins, const Frame& frame, const Axis& axis) {
  const bool flat = std::ranges::all_of(bins, [](const auto& bin) { return !bin || bin->min == bin->max; });
  if (flat) return {};
  std::string path;
  for (const Run& run : runs_of(bins)) {
    const auto x = [&](std::size_t i) { return x_of(frame, bins.size(), static_cast<double>(i)); };
    for (std::size_t i = run.first; i <= run.last; ++i)
      path += point_text(i == run.first ? 'M' : 'L', x(i), y_of(frame, axis, bins[i]->max));
    for (std::size_t i = run.last + 1; i-- > run.first;) path += point_text('L', x(i), y_of(frame, axis, bins[i]->min));
    path += 'Z';
  }
  return path;
}

}  // namespace gpuwarden::recording
