// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/markup.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 480;
constexpr double kLeft = 70;
constexpr double kRight = 640;
constexpr double kTop = 70;
constexpr double kBottom = 420;
/// Eleven colours that stay apart for most colour-blind readers (after Paul Tol's schemes).
constexpr const char* kColours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
                                    "#bbbbbb", "#ee8866", "#44bb99", "#99ddff", "#777777"};

std::string markup(std::string_view text) { return markup_text(printable(text)); }

double height_of(const ChartColumn& column) {
  double sum = 0;
  for (const ChartPart& part : column.parts) sum += part.gib;
  return sum;
}

/// Names of all parts, in the order in which they first appear.
std::vector<std::string> parts_of(const MemoryChart& chart) {
  std::vector<std::string> names;
  for (const ChartColumn& column : chart.columns) {
    for (const ChartPart& part : column.parts) {
      if (part.gib > 0 && std::ranges::find(names, part.name) == names.end()) names.push_back(part.name);
    }
  }
  return names;
}

const char* colour_of(const std::vector<std::string>& names, const std::string& name) {
  const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  return kColours[at % std::size(kColours)];
}

/// 1, 2 or 5 times a power of ten, so that about six of them reach the top.
double grid_step(double top) {
  const double raw = top / 6;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

/// Draws in GiB; the picture's top is the scale's end.
class Canvas {
 public:
  explicit Canvas(double top) : top_(top) {}

  double y(double gib) const { return kBottom - gib / top_ * (kBottom - kTop); }
  void line(double x1, double x2, double gib, std::string_view style) {
    text_ += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, x2, y(gib), y(gib),
                         style);
  }
  /// Pixels across, GiB upwards.
  struct Box {
    double x;
    double width;
    double from;
    double to;
  };
  void box(const Box& box, std::string_view colour, std::string_view title) {
    text_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"white\"><title>{}</title></rect>\n",
        box.x, y(box.to), box.width, std::max(0.0, y(box.from) - y(box.to)), colour, markup(title));
  }
  void words(double x, double at, std::string_view what, std::string_view style) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, at, style, markup(what));
  }
  void swatch(double x, double at, std::string_view colour) {
    text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, at, colour);
  }
  std::string take() && { return std::move(text_); }

 private:
  double top_;
  std::string text_;
};

void draw_grid(Canvas& canvas, double top) {
  const double step = grid_step(top);
  for (int i = 0; i * step <= top; ++i) {
    const double gib = i * step;
    canvas.line(kLeft, kRight, gib, "stroke=\"#dddddd\"");
    canvas.words(kLeft - 8, canvas.y(gib) + 4, fmt::format("{:g} GiB", gib), "text-anchor=\"end\" font-size=\"12\"");
  }
}

void draw_columns(Canvas& canvas, const MemoryChart& chart, const std::vector<std::string>& names) {
  const double slot = (kRight - kLeft) / static_cast<double>(std::max<std::size_t>(1, chart.columns.size()));
  for (std::size_t i = 0; i < chart.columns.size(); ++i) {
    const ChartColumn& column = chart.columns[i];
    const double x = kLeft + static_cast<double>(i) * slot + slot * 0.15;
    double from = 0;
    for (const ChartPart& part : column.parts) {
      if (part.gib <= 0) continue;
      canvas.box({x, slot * 0.7, from, from + part.gib}, colour_of(names, part.name),
                 fmt::format("{}: {:.2f} GiB", part.name, part.gib));
      from += part.gib;
    }
    const std::string_view weight = column.peak ? "text-anchor=\"middle\" font-size=\"12\" font-weight=\"bold\""
                                                : "text-anchor=\"middle\" font-size=\"12\"";
    canvas.words(x + slot * 0.35, canvas.y(from) - 5, fmt::format("{:.1f}", from), weight);
    canvas.words(x + slot * 0.35, kBottom + 18, column.label, weight);
  }
}

void draw_legend(Canvas& canvas, const std::vector<std::string>& names) {
  double at = kTop;
  for (const std::string& name : names) {
    canvas.swatch(kRight + 24, at, colour_of(names, name));
    canvas.words(kRight + 44, at + 11, name, "font-size=\"12\"");
    at += 22;
  }
}

}  // namespace

MemoryChart chart_of(const PlanAnswer& answer) {
  const Candidate& best = answer.best();
  MemoryChart chart{.title = fmt::format("{}: memory of each GPU", answer.request.work.model.name),
                    .subtitle = fmt::format("{}, {}, {} x {}", best.name, spaced(to_string(best.settings.task)),
                                            answer.request.gpus.count, answer.request.gpus.name),
                    .capacity_gib = static_cast<double>(answer.request.gpus.usable.value) / kBytesPerGiB};
  const Estimate& estimate = best.estimate;
  for (std::size_t i = 0; i < estimate.moment_count; ++i) {
    const Moment& moment = estimate.moments[i];
    ChartColumn column{.label = spaced(to_string(moment.kind)), .peak = i == estimate.peak};
    for (std::size_t use = 0; use < kUses; ++use)
      column.parts.push_back({spaced(name_of(static_cast<Use>(use), best.settings)), moment.uses[use] / kBytesPerGiB});
    column.parts.push_back(
        {"context and reserve", (estimate.context + estimate.communication + estimate.reserve) / kBytesPerGiB});
    chart.columns.push_back(std::move(column));
  }
  chart.lines.push_back(answer.search.reason);
  for (const Change& change : answer.search.changes) chart.lines.push_back(change.what);
  for (const ExplainedUse& line : answer.lines)
    chart.lines.push_back(fmt::format("{}: {} ({})", spaced(line.name), line.formula, line.source));
  return chart;
}

std::string chart_svg(const MemoryChart& chart) {
  double top = chart.capacity_gib;
  for (const ChartColumn& column : chart.columns) top = std::max(top, height_of(column));
  top = std::max(top * 1.08, 1e-3);
  const auto names = parts_of(chart);
  Canvas canvas(top);
  canvas.words(kLeft, 28, chart.title, "font-size=\"18\" font-weight=\"bold\"");
  canvas.words(kLeft, 48, chart.subtitle, "font-size=\"13\" fill=\"#555555\"");
  draw_grid(canvas, top);
  draw_columns(canvas, chart, names);
  if (chart.capacity_gib > 0) {
    canvas.line(kLeft, kRight, chart.capacity_gib, "stroke=\"#cc0000\" stroke-width=\"2\" stroke-dasharray=\"6 4\"");
    canvas.words(kRight + 4, canvas.y(chart.capacity_gib) - 6, fmt::format("GPU: {:.1f} GiB", chart.capacity_gib),
                 "font-size=\"12\" fill=\"#cc0000\"");
  }
  draw_legend(canvas, names);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" "
      "font-family=\"sans-serif\">\n<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth, kHeight, std::move(canvas).take());
}

std::string chart_html(const MemoryChart& chart) {
  const auto names = parts_of(chart);
  std::string table = "<table>\n<tr><th>GiB</th>";
  for (const ChartColumn& column : chart.columns) table += fmt::format("<th>{}</th>", markup(column.label));
  table += "</tr>\n";
  for (const std::string& name : names) {
    table += fmt::format("<tr><td>{}</td>", markup(name));
    for (const ChartColumn& column : chart.columns) {
      const auto part = std::ranges::find(column.parts, name, &ChartPart::name);
      table += fmt::format("<td>{:.2f}</td>", part == column.parts.end() ? 0.0 : part->gib);
    }
    table += "</tr>\n";
  }
  std::string lines;
  for (const std::string& line : chart.lines) lines += fmt::format("<p>{}</p>\n", markup(line));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n"
      "<style>body{{font-family:sans-serif;max-width:60em;margin:2em auto}}td,th{{padding:.2em 1em;text-align:right}}"
      "td:first-child,th:first-child{{text-align:left}}</style></head><body>\n{}{}</table>\n{}</body></html>\n",
      markup(chart.title), chart_svg(chart), table, lines);
}

Result<std::string> draw_chart(const MemoryChart& chart, const std::string& file) {
  const std::string lower = to_lower(file);
  if (lower.ends_with(".svg")) return chart_svg(chart);
  if (lower.ends_with(".html") || lower.ends_with(".htm")) return chart_html(chart);
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' ends neither with .svg nor with .html", printable(file)),
              "the ending says which of the two is written");
}

}  // namespace gpuwarden::planning
