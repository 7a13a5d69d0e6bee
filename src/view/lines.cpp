// SPDX-License-Identifier: Apache-2.0
// GPUs as a line each, in columns; those that say least give way first.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

/// A GPU's cell, and how it is drawn where it is more than a text.
struct LineCell {
  std::string text;
  Tone tone = Tone::plain;
  std::optional<double> share;
};

enum class LineKind { text, number, bar, history, remarks };

struct LineColumn {
  const char* title;
  LineKind kind;
  int least;  ///< of a text: nothing beside its widest cell
  int most;   ///< where there is room to spare
  int rank;   ///< the highest gives way first
  LineCell (*cell)(const GpuRow&, bool ascii);
};

const facts::GpuSample& sample_of(const GpuRow& row) {
  static const facts::GpuSample kNothing;
  return row.record == nullptr ? kNothing : row.record->sample;
}

LineCell name_cell(const GpuRow& row, bool /*ascii*/) {
  return {row.record == nullptr ? "-" : std::string(model_words(row.record->gpu.name))};
}

LineCell load_cell(const GpuRow& row, bool /*ascii*/) {
  const auto& load = sample_of(row).utilization_gpu;
  if (load) return {percent_words(load), Tone::plain, static_cast<double>(load->value) / 100};
  return {row.record != nullptr && row.record->gpu.mig_enabled.value_or(false) ? "n/a MIG" : "n/a", Tone::dim};
}

LineCell memory_cell(const GpuRow& row, bool /*ascii*/) {
  const auto& sample = sample_of(row);
  LineCell cell{memory_words(sample.memory_used, sample.memory_total)};
  if (sample.memory_used && sample.memory_total && sample.memory_total->value > 0)
    cell.share = ratio(*sample.memory_used, *sample.memory_total);
  return cell;
}

LineCell heat_cell(const GpuRow& row, bool ascii) {
  const auto& heat = sample_of(row).temperature;
  LineCell cell{heat_words(heat, ascii), heat ? Tone::plain : Tone::dim};
  if (heat && row.record->gpu.temperature_slowdown) {
    const auto margin = row.record->gpu.temperature_slowdown->value - heat->value;
    if (margin <= 5) cell.tone = margin <= 0 ? Tone::fault : Tone::warning;
  }
  return cell;
}

LineCell power_cell(const GpuRow& row, bool /*ascii*/) {
  return {power_words(sample_of(row).power, sample_of(row).power_limit)};
}

LineCell clock_cell(const GpuRow& row, bool /*ascii*/) {
  const auto& clock = sample_of(row).clock_sm;
  return {clock ? std::to_string(clock->value) : ""};
}

LineCell fan_cell(const GpuRow& row, bool /*ascii*/) {
  return {sample_of(row).fan_speed ? percent_words(sample_of(row).fan_speed) : ""};
}

LineCell traffic_cell(const std::optional<BytesPerSecond>& received, const std::optional<BytesPerSecond>& sent) {
  if (!received && !sent) return {};
  return {rate_words(received) + " " + rate_words(sent)};
}

LineCell pcie_cell(const GpuRow& row, bool /*ascii*/) {
  return traffic_cell(sample_of(row).pcie_received, sample_of(row).pcie_sent);
}

LineCell nvlink_cell(const GpuRow& row, bool /*ascii*/) {
  return traffic_cell(sample_of(row).nvlink_received, sample_of(row).nvlink_sent);
}

LineCell ecc_cell(const GpuRow& row, bool /*ascii*/) {
  const auto& sample = sample_of(row);
  if (!sample.ecc_corrected_volatile && !sample.ecc_uncorrected_volatile) return {};
  const auto bad = sample.ecc_uncorrected_volatile.value_or(Count(0)).value;
  return {fmt::format("{}/{}", sample.ecc_corrected_volatile.value_or(Count(0)).value, bad),
          bad > 0 ? Tone::fault : Tone::plain};
}

LineCell label_cell(const GpuRow& row, bool /*ascii*/) { return {row.label}; }
LineCell drawn_otherwise(const GpuRow& /*row*/, bool /*ascii*/) { return {}; }

constexpr auto kLineColumns = std::to_array<LineColumn>({
    {"GPU", LineKind::number, 2, 0, 0, label_cell},
    {"NAME", LineKind::text, 14, 26, 5, name_cell},
    {"LOAD", LineKind::bar, 9, 24, 0, load_cell},
    {"MEMORY", LineKind::bar, 14, 30, 2, memory_cell},
    {"TEMP", LineKind::number, 0, 0, 3, heat_cell},
    {"POWER", LineKind::number, 0, 0, 4, power_cell},
    {"FAN", LineKind::number, 0, 0, 9, fan_cell},
    {"MHz", LineKind::number, 0, 0, 7, clock_cell},
    {"PCIe in out", LineKind::number, 0, 0, 10, pcie_cell},
    {"NVLink in out", LineKind::number, 0, 0, 11, nvlink_cell},
    {"ECC", LineKind::number, 0, 0, 12, ecc_cell},
    {"HISTORY", LineKind::history, 10, 60, 8, drawn_otherwise},
    {"STATE", LineKind::remarks, 8, 44, 1, drawn_otherwise},
});
using LineWidths = std::array<int, kLineColumns.size()>;

/// Widest of a column's cells; 0 where nothing is known in any.
int widest(const Frame& frame, const LineColumn& column) {
  int width = 0;
  for (const std::size_t at : frame.rows.gpus)
    width = std::max(width, display_width(column.cell(frame.rows.all_gpus[at], frame.ascii()).text));
  return width;
}

int least_width(const Frame& frame, const LineColumn& column) {
  if (column.kind == LineKind::history) return frame.scene.trail == nullptr ? 0 : column.least;
  if (column.kind == LineKind::remarks) return column.least;
  const int width = widest(frame, column);
  if (column.kind == LineKind::bar) return std::max(column.least, width + 4);
  if (column.kind == LineKind::text) return std::min(std::max(width, 4), column.least);
  return width == 0 ? 0 : std::max(width, display_width(column.title));
}

int most_width(const Frame& frame, const LineColumn& column) {
  if (column.kind == LineKind::text) return std::min(column.most, std::max(4, widest(frame, column)));
  return column.most;
}

LineWidths line_widths(const Frame& frame, int width) {
  LineWidths widths{};
  for (std::size_t i = 0; i < widths.size(); ++i) widths.at(i) = least_width(frame, kLineColumns.at(i));
  const auto taken = [&] {
    int sum = 0;
    for (const int column : widths) sum += column == 0 ? 0 : column + 1;
    return sum - 1;
  };
  for (int rank = 12; rank > 0 && taken() > width; --rank) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (kLineColumns.at(i).rank == rank) widths.at(i) = 0;
  }
  bool grown = true;
  for (int left = width - taken(); left > 0 && grown;) {
    grown = false;
    for (std::size_t i = 0; i < widths.size() && left > 0; ++i) {
      if (widths.at(i) == 0 || widths.at(i) >= most_width(frame, kLineColumns.at(i))) continue;
      ++widths.at(i);
      --left;
      grown = true;
    }
  }
  return widths;
}

void draw_line_cell(const Frame& frame, Rect area, const LineColumn& column, const GpuRow& row) {
  if (column.kind == LineKind::remarks) {
    put_remarks(frame.canvas, {area.x, area.y}, remarks_on(row, frame.scene), area.width);
    return;
  }
  if (column.kind == LineKind::history) {
    const auto values = graph_values(frame, row, metric_position("utilization"), area.width);
    draw_graph(frame.canvas, area, values, {.low = 0, .high = 100}, frame.ink());
    return;
  }
  const LineCell cell = column.cell(row, frame.ascii());
  if (column.kind == LineKind::bar)
    draw_bar(frame.canvas, area, cell.share, cell.text, frame.ink());
  else if (column.kind == LineKind::number)
    frame.canvas.put_right({area.x + area.width, area.y}, cell.text, cell.tone, area.width);
  else
    frame.canvas.put({area.x, area.y}, cell.text, cell.tone, area.width);
}

void draw_line(const Frame& frame, Rect area, const GpuRow& row, const LineWidths& widths) {
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths.at(i) == 0) continue;
    draw_line_cell(frame, {area.x, area.y, widths.at(i), 1}, kLineColumns.at(i), row);
    area.x += widths.at(i) + 1;
    area.width -= widths.at(i) + 1;
    if (row.record != nullptr) continue;
    // A node that told of no GPU has a reason rather than figures.
    put_remarks(frame.canvas, {area.x, area.y}, remarks_on(row, frame.scene), std::max(0, area.width));
    return;
  }
}

void draw_line_head(const Frame& frame, Rect area, const LineWidths& widths) {
  frame.canvas.fill({area.x, area.y, area.width, 1}, U' ', Tone::title);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const LineColumn& column = kLineColumns.at(i);
    if (widths.at(i) == 0) continue;
    if (column.kind == LineKind::number)
      frame.canvas.put_right({area.x + widths.at(i), area.y}, column.title, Tone::title, widths.at(i));
    else
      frame.canvas.put({area.x, area.y}, column.title, Tone::title, widths.at(i));
    area.x += widths.at(i) + 1;
  }
}

/// Why there is no line.
std::string_view no_gpus(const Frame& frame) {
  if (frame.scene.nodes.empty() || (frame.scene.nodes.size() == 1 && frame.scene.nodes[0].reading == nullptr))
    return "";
  if (!frame.rows.all_gpus.empty()) return "no GPU matches the filter";
  return frame.state.only.empty() ? "no GPU" : "no such GPU";
}

}  // namespace

void draw_lines(const Frame& frame, const Layout& layout) {
  if (layout.gpus.height <= 0) return;
  if (frame.rows.gpus.empty()) {
    frame.canvas.put({layout.gpus.x + 1, layout.gpus.y}, no_gpus(frame), Tone::dim, layout.gpus.width - 1);
    return;
  }
  const LineWidths widths = line_widths(frame, layout.gpus.width);
  draw_line_head(frame, layout.gpus, widths);
  const std::size_t selected = selected_gpu(frame.state, frame.rows);
  for (std::size_t i = 0; i < layout.gpus_in_sight; ++i) {
    const std::size_t nth = frame.state.first_gpu + i;
    if (nth >= frame.rows.gpus.size()) return;
    draw_line(frame, layout.gpu(i), frame.rows.all_gpus[frame.rows.gpus[nth]], widths);
    if (nth == selected && frame.state.focus == Focus::gpus) frame.canvas.invert(layout.gpu(i));
  }
}

}  // namespace gpuwarden::view
