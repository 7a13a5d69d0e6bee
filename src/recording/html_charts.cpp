// SPDX-License-Identifier: Apache-2.0
#include "recording/html_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gpuwarden/base/markup.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/watch.hpp"
#include "gpuwarden/recording/words.hpp"

namespace gpuwarden::recording {
namespace {

using std::chrono::milliseconds;
using telemetry::Series;

/// As many lines as are drawn with all points.
constexpr std::size_t kFullLines = 8;
constexpr std::size_t kFewestPoints = 60;
constexpr std::size_t kMostMarks = 40;

std::size_t points_for(std::size_t lines, std::size_t most_points) {
  if (lines <= kFullLines) return most_points;
  return std::max(kFewestPoints, most_points * kFullLines / lines);
}

/// The time between readings: the shortest usual step of any GPU's utilization or power.
milliseconds step_of(const Recording& readings) {
  milliseconds step = readings.info.interval;
  for (const GpuHistory& gpu : readings.gpus) {
    for (const auto& [metric, series] : gpu.series) step = std::max(step, usual_step(series.points));
  }
  return step;
}

double highest_of(const Bins& bins) {
  double highest = 0;
  for (const auto& bin : bins) highest = std::max(highest, bin ? bin->max : 0);
  return highest;
}

/// The limit that is the same for all GPUs.
std::optional<double> reference_of(const Recording& readings, std::string_view metric) {
  const std::string_view limit = metric == "memory_used" ? "memory_total" : metric == "power" ? "power_limit" : "";
  std::optional<double> common;
  for (const GpuHistory& gpu : readings.gpus) {
    const Series* series = limit.empty() ? nullptr : gpu.find(limit);
    if (series == nullptr || (common && *common != series->points.back().max)) return std::nullopt;
    common = series->points.back().max;
  }
  return common;
}

Chart empty_chart(const Figure& figure) {
  Chart chart;
  chart.metric = figure.metric;
  chart.title = figure.title;
  chart.unit = figure.unit;
  return chart;
}

void add_line(Chart& chart, Bins bins) {
  chart.highest = std::max(chart.highest, highest_of(bins));
  chart.lines.push_back(std::move(bins));
}

bool has_points(const Chart& chart) {
  return std::ranges::any_of(chart.lines, [](const Bins& bins) {
    return std::ranges::any_of(bins, [](const auto& bin) { return bin.has_value(); });
  });
}

std::vector<Mark> marks_of(const Summary& summary, const Grid& grid) {
  std::vector<Mark> marks;
  for (const telemetry::Happening& happening : summary.happenings) {
    const bool drawn = happening.kind == kLostKind || happening.kind == kFailedKind || happening.kind == kXidKind;
    if (!drawn || marks.size() == kMostMarks || happening.time < grid.from) continue;
    marks.push_back({std::chrono::duration_cast<milliseconds>(happening.time - grid.from),
                     moment_text(happening.time, summary.window) + " " + happening_text(happening, summary)});
  }
  return marks;
}

/// All GPUs of a recording as one line.
Bins joined_gpus(const Recording& readings, std::string_view metric, Grid grid) {
  grid.from = readings.window.from;
  std::vector<Bins> all;
  for (const GpuHistory& gpu : readings.gpus) {
    if (const Series* series = gpu.find(metric)) all.push_back(resample(*series, grid));
  }
  Bins joined(grid.bins);
  for (std::size_t i = 0; i < grid.bins; ++i) {
    int known = 0;
    Bin sum;
    for (const Bins& bins : all) {
      if (!bins[i]) continue;
      sum.min = known == 0 ? bins[i]->mean : std::min(sum.min, bins[i]->mean);
      sum.max = known == 0 ? bins[i]->mean : std::max(sum.max, bins[i]->mean);
      sum.mean += bins[i]->mean;
      ++known;
    }
    if (known > 0) joined[i] = Bin{sum.min, sum.mean / known, sum.max};
  }
  return joined;
}

constexpr double kWidth = 640;
constexpr double kHeight = 210;
constexpr Frame kFrame{.left = 62, .top = 12, .width = 566, .height = 168};

std::string grid_lines(const Axis& axis, const Axis& times, const Grid& grid) {
  std::string svg;
  for (const Tick& tick : axis.ticks) {
    const double y = y_of(kFrame, axis, tick.value);
    svg += fmt::format(R"(<path class="rule" d="M{} {:.1f}h{}"/><text class="y" x="{}" y="{:.1f}">{}</text>)",
                       kFrame.left, y, kFrame.width, kFrame.left - 6, y + 3.5, markup_text(tick.text));
  }
  const double seconds = static_cast<double>(grid.step.count()) * static_cast<double>(grid.bins) / 1000;
  for (const Tick& tick : times.ticks) {
    const double x = kFrame.left + tick.value / seconds * kFrame.width;
    svg += fmt::format(R"(<path class="rule" d="M{:.1f} {}v4"/><text class="x" x="{:.1f}" y="{}">{}</text>)", x,
                       kFrame.top + kFrame.height, x, kFrame.top + kFrame.height + 17, markup_text(tick.text));
  }
  return svg;
}

std::string mark_lines(const ChartSet& set) {
  std::string svg;
  const double whole = static_cast<double>(set.grid.step.count()) * static_cast<double>(set.grid.bins);
  for (const Mark& mark : set.marks) {
    const double x = kFrame.left + std::clamp(static_cast<double>(mark.at.count()) / whole, 0.0, 1.0) * kFrame.width;
    svg += fmt::format(
        R"(<g class="mark"><path d="M{:.1f} {}v{}"/><path class="flag" d="M{:.1f} {}l-4 -7h8z"/><title>{}</title></g>)",
        x, kFrame.top, kFrame.height, x, kFrame.top, markup_text(mark.text));
  }
  return svg;
}

/// What somebody hears who does not see the chart.
std::string description_of(const Chart& chart, const ChartSet& set) {
  double sum = 0;
  double known = 0;
  for (const Bins& bins : chart.lines) {
    for (const auto& bin : bins) {
      sum += bin ? bin->mean : 0;
      known += bin ? 1 : 0;
    }
  }
  const auto length = set.grid.step * static_cast<milliseconds::rep>(set.grid.bins);
  return fmt::format("{} of {} over {}: mean {}, highest {}", chart.title,
                     set.names.size() == 1 ? set.names[0] : fmt::format("{} lines", set.names.size()),
                     duration_text(length), known > 0 ? quantity_text(sum / known, chart.unit) : "-",
                     quantity_text(chart.highest, chart.unit));
}

// The heat map's colours are sequential (after cividis), in ten steps.
constexpr int kShades = 10;
constexpr double kRow = 10;
constexpr double kRowGap = 1;
constexpr std::size_t kMostColumns = 280;

int shade_of(double percent) { return std::clamp(static_cast<int>(percent / kShades), 0, kShades - 1); }

/// Several bins as one column: the mean of those that are known.
std::optional<double> column_of(const Bins& bins, std::size_t first, std::size_t count) {
  double sum = 0;
  int known = 0;
  for (std::size_t i = first; i < std::min(first + count, bins.size()); ++i) {
    if (!bins[i]) continue;
    sum += bins[i]->mean;
    ++known;
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

/// Each shade's cells as one path.
std::array<std::string, kShades> shades_of(const Chart& chart) {
  std::array<std::string, kShades> paths;
  for (std::size_t row = 0; row < chart.lines.size(); ++row) {
    const Bins& bins = chart.lines[row];
    const std::size_t together = (bins.size() + kMostColumns - 1) / kMostColumns;
    const std::size_t columns = together == 0 ? 0 : (bins.size() + together - 1) / together;
    const double wide = kFrame.width / static_cast<double>(std::max<std::size_t>(columns, 1));
    for (std::size_t column = 0; column < columns;) {
      const auto value = column_of(bins, column * together, together);
      std::size_t same = 1;
      const auto alike = [&](std::size_t other) {
        const auto next = column_of(bins, other * together, together);
        return value && next && shade_of(*next) == shade_of(*value);
      };
      while (column + same < columns && alike(column + same)) ++same;
      if (value)
        paths[static_cast<std::size_t>(shade_of(*value))] +=
            fmt::format("M{:.1f} {:.0f}h{:.1f}v{:.0f}h-{:.1f}z", kFrame.left + static_cast<double>(column) * wide,
                        static_cast<double>(row) * (kRow + kRowGap), static_cast<double>(same) * wide + 0.2, kRow,
                        static_cast<double>(same) * wide + 0.2);
      column += same;
    }
  }
  return paths;
}

std::string number_text(double value, std::string_view unit) {
  if (unit == "B") return fmt::format("{:.0f}", value / (1 << 20));
  return fmt::format("{:.4g}", value);
}

template <class Value>
std::string array_of(const Bins& bins, std::string_view unit, Value value) {
  std::string text = "[";
  for (const auto& bin : bins) {
    if (text.size() > 1) text += ',';
    text += bin ? number_text(value(*bin), unit) : "null";
  }
  return text + "]";
}

/// A text as JSON that may stand in a script element.
std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : printable(text)) {
    const bool plain = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
    quoted += plain ? std::string(1, c) : fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
  }
  return quoted + "\"";
}

}  // namespace

ChartSet charts_of(const Recording& readings, const Summary& summary, std::size_t most_points) {
  ChartSet set;
  set.grid = grid_of(readings.window, points_for(readings.gpus.size(), most_points), step_of(readings));
  set.marks = marks_of(summary, set.grid);
  for (const GpuHistory& gpu : readings.gpus) set.names.push_back(fmt::format("GPU {}", gpu.gpu.index.value));
  for (const Figure& figure : figures()) {
    if (!figure.charted) continue;
    Chart chart = empty_chart(figure);
    chart.reference = reference_of(readings, figure.metric);
    for (const GpuHistory& gpu : readings.gpus) {
      const Series* series = gpu.find(figure.metric);
      add_line(chart, series == nullptr ? Bins(set.grid.bins) : resample(*series, set.grid));
    }
    if (has_points(chart)) set.charts.push_back(std::move(chart));
  }
  return set;
}

ChartSet charts_of_both(const Recording& a, const Recording& b, std::size_t most_points) {
  ChartSet set;
  set.relative = true;
  set.names = {"A", "B"};
  const auto longest = std::max(a.window.to - a.window.from, b.window.to - b.window.from);
  set.grid =
      grid_of({telemetry::WallTime{}, telemetry::WallTime{} + longest}, most_points, std::max(step_of(a), step_of(b)));
  for (const Figure& figure : figures()) {
    if (!figure.charted) continue;
    Chart chart = empty_chart(figure);
    add_line(chart, joined_gpus(a, figure.metric, set.grid));
    add_line(chart, joined_gpus(b, figure.metric, set.grid));
    if (has_points(chart)) set.charts.push_back(std::move(chart));
  }
  return set;
}

std::string figure_of(const Chart& chart, const ChartSet& set) {
  const Axis axis = value_axis(std::max(chart.highest, chart.reference.value_or(0)), chart.unit);
  std::string lines;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const std::string band = band_path(chart.lines[i], kFrame, axis);
    lines +=
        fmt::format(R"(<g class="s{}{}" data-line="{}">)", i % kFullLines, i / kFullLines % 2 == 1 ? " dash" : "", i);
    if (!band.empty()) lines += fmt::format(R"(<path class="band" d="{}"/>)", band);
    lines += fmt::format(R"(<path class="line" d="{}"/></g>)", line_path(chart.lines[i], kFrame, axis));
  }
  std::string limit;
  if (chart.reference)
    limit = fmt::format(R"(<path class="limit" d="M{} {:.1f}h{}"/>)", kFrame.left, y_of(kFrame, axis, *chart.reference),
                        kFrame.width);
  return fmt::format(
      "<figure>\n<figcaption>{}</figcaption>\n"
      R"(<svg class="chart" viewBox="0 0 {} {}" role="img" tabindex="0" aria-label="{}" data-metric="{}">)"
      R"({}{}{}{}<path class="cursor" d="M0 {}v{}"/></svg>)"
      "\n</figure>\n",
      markup_text(chart.title), kWidth, kHeight, markup_text(description_of(chart, set)), chart.metric,
      grid_lines(axis, time_axis(set.grid, set.relative), set.grid), limit, lines, mark_lines(set), kFrame.top,
      kFrame.height);
}

std::string heat_map_of(const ChartSet& set) {
  const auto chart = std::ranges::find(set.charts, "utilization", &Chart::metric);
  if (chart == set.charts.end() || set.names.size() < 2) return {};
  const auto paths = shades_of(*chart);
  const double height = static_cast<double>(set.names.size()) * (kRow + kRowGap);
  std::string svg;
  for (std::size_t i = 0; i < set.names.size(); ++i) {
    const double y = static_cast<double>(i) * (kRow + kRowGap);
    svg += fmt::format(R"(<text class="y" x="{}" y="{:.0f}">{}</text><path class="none" d="M{} {:.0f}h{}v{}h-{}z"/>)",
                       kFrame.left - 6, y + kRow / 2 + 2.2, markup_text(set.names[i]), kFrame.left, y, kFrame.width,
                       kRow, kFrame.width);
  }
  for (std::size_t shade = 0; shade < paths.size(); ++shade) {
    if (!paths[shade].empty()) svg += fmt::format(R"(<path class="h{}" d="{}"/>)", shade, paths[shade]);
  }
  std::string key;
  for (int shade = 0; shade < kShades; ++shade) key += fmt::format(R"(<i class="h{}"></i>)", shade);
  const Axis times = time_axis(set.grid, set.relative);
  const double seconds = static_cast<double>(set.grid.step.count()) * static_cast<double>(set.grid.bins) / 1000;
  for (const Tick& tick : times.ticks)
    svg += fmt::format(R"(<text class="x" x="{:.1f}" y="{:.0f}">{}</text>)",
                       kFrame.left + tick.value / seconds * kFrame.width, height + 7, markup_text(tick.text));
  return fmt::format(
      "<figure class=\"wide\">\n<figcaption>When each GPU worked <span class=\"heatkey\">0 % {} 100 % "
      "<i class=\"none\"></i> no reading</span></figcaption>\n"
      R"(<svg class="chart heat" viewBox="0 0 {} {:.0f}" role="img" tabindex="0" aria-label="{}" data-metric="utilization">)"
      R"({}<path class="cursor" d="M0 0v{:.0f}"/></svg>)"
      "\n</figure>\n",
      key, kWidth, height + 10, markup_text(description_of(*chart, set)), svg, height);
}

std::string data_of(const ChartSet& set) {
  std::string names;
  for (const std::string& name : set.names) names += (names.empty() ? "" : ",") + json_text(name);
  std::string charts;
  for (const Chart& chart : set.charts) {
    std::string lines;
    for (const Bins& bins : chart.lines) {
      const bool flat = std::ranges::all_of(bins, [](const auto& bin) { return !bin || bin->min == bin->max; });
      lines += fmt::format("{}{{\"mean\":{}", lines.empty() ? "" : ",",
                           array_of(bins, chart.unit, [](const Bin& bin) { return bin.mean; }));
      if (!flat)
        lines +=
            fmt::format(",\"min\":{},\"max\":{}", array_of(bins, chart.unit, [](const Bin& bin) { return bin.min; }),
                        array_of(bins, chart.unit, [](const Bin& bin) { return bin.max; }));
      lines += '}';
    }
    charts += fmt::format("{}\"{}\":{{\"unit\":\"{}\",\"lines\":[{}]}}", charts.empty() ? "" : ",", chart.metric,
                          chart.unit, lines);
  }
  const auto from = std::chrono::duration_cast<milliseconds>(set.grid.from.time_since_epoch()).count();
  return fmt::format(
      R"({{"from":{},"step":{},"bins":{},"relative":{},"left":{},"width":{},"names":[{}],"charts":{{{}}}}})", from,
      set.grid.step.count(), set.grid.bins, set.relative, kFrame.left / kWidth, kFrame.width / kWidth, names, charts);
}

}  // namespace gpuwarden::recording
