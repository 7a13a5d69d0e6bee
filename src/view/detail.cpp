// SPDX-License-Identifier: Apache-2.0
// One GPU: what it is, a large graph of the selected metric, and every metric with a small one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

constexpr int kInventory = 2;  ///< rows with what the GPU is
constexpr int kNameColumn = 27;
constexpr int kValueColumn = 14;

int detail_graph_height(int height) { return height >= 20 ? std::min(10, height / 3) : height >= 12 ? 4 : 0; }

std::string inventory_words(const facts::GpuRecord& record) {
  const facts::Gpu& gpu = record.gpu;
  std::string text = fmt::format("{}  {}", gpu.uuid.value, gpu.pci_bus_id);
  const auto add = [&](std::string_view label, const auto& value) {
    if (value) text += fmt::format("  {}{}", label, *value);
  };
  add("", gpu.architecture);
  if (gpu.compute_capability)
    text += fmt::format("  CC {}.{}", gpu.compute_capability->major, gpu.compute_capability->minor);
  if (gpu.multiprocessors) text += fmt::format("  {} SMs", gpu.multiprocessors->value);
  if (gpu.numa_node) text += fmt::format("  NUMA {}", *gpu.numa_node);
  add("serial ", gpu.serial);
  add("VBIOS ", gpu.vbios_version);
  return text;
}

/// "lowest .. highest" of what is in sight.
std::string extremes(const facts::Metric& metric, std::span<const float> values) {
  float least = std::nanf("");
  float most = std::nanf("");
  for (const float value : values) {
    least = std::fmin(least, value);
    most = std::fmax(most, value);
  }
  if (std::isnan(least) || least == most) return "";
  return fmt::format("{} to {}", value_words(metric, least), value_words(metric, most));
}

/// The time that a graph of this width spans.
std::string span_words(const Frame& frame, int width) {
  const auto dots = static_cast<std::int64_t>(width) * dots_in_cell(frame.state.glyphs) * frame.state.zoom;
  return age_words(std::chrono::duration_cast<std::chrono::seconds>(frame.scene.interval * dots));
}

void draw_large_graph(const Frame& frame, Rect area, const GpuRow& row, std::size_t position) {
  const facts::Metric& metric = facts::metrics()[position];
  constexpr int kAxis = 9;
  const Rect graph{area.x + kAxis, area.y + 1, area.width - kAxis, area.height - 1};
  const auto values = graph_values(frame, row, position, graph.width);
  const Axis axis = axis_of(metric, *row.record, values);
  frame.canvas.put({area.x, area.y}, metric.id, Tone::title);
  frame.canvas.put({area.x + display_width(metric.id) + 2, area.y}, metric.help, Tone::dim,
                   area.width - display_width(metric.id) - 2);
  if (graph.height <= 0 || graph.width <= 0) return;
  frame.canvas.put_right({area.x + kAxis - 1, graph.y}, value_words(metric, axis.high), Tone::dim, kAxis - 1);
  frame.canvas.put_right({area.x + kAxis - 1, graph.y + graph.height - 1}, value_words(metric, axis.low), Tone::dim,
                         kAxis - 1);
  if (graph.height > 2)
    frame.canvas.put_right({area.x + kAxis - 1, graph.y + graph.height / 2}, span_words(frame, graph.width), Tone::dim,
                           kAxis - 1);
  draw_graph(frame.canvas, graph, values, axis, frame.ink());
}

void draw_metric(const Frame& frame, Rect area, const GpuRow& row, std::size_t position) {
  const facts::Metric& metric = facts::metrics()[position];
  const auto value = facts::value_of(metric, row.record->sample);
  int x = area.x + 1;
  frame.canvas.put({x, area.y}, metric.id, Tone::plain, kNameColumn);
  x += kNameColumn + 1;
  frame.canvas.put_right({x + kValueColumn, area.y}, value ? value_words(metric, *value) : "-", Tone::bold,
                         kValueColumn);
  x += kValueColumn + 2;
  const int left = area.x + area.width - x;
  const int text = left >= 60 ? 26 : 0;
  const int width = left - text - (text > 0 ? 1 : 0);
  if (width < 4) return;
  const auto values = graph_values(frame, row, position, width);
  draw_graph(frame.canvas, {x, area.y, width, 1}, values, axis_of(metric, *row.record, values), frame.ink());
  if (text > 0) frame.canvas.put({x + width + 1, area.y}, extremes(metric, values), Tone::dim, text);
}

}  // namespace

std::vector<std::size_t> told_metrics(const facts::GpuRecord& record) {
  std::vector<std::size_t> told;
  const auto all = facts::metrics();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (facts::value_of(all[i], record.sample)) told.push_back(i);
  return told;
}

std::size_t detail_rows_in_sight(Extent extent) {
  const int height = extent.height - 2;
  return static_cast<std::size_t>(std::max(0, height - 1 - kInventory - detail_graph_height(height)));
}

void draw_detail(const Frame& frame, Rect area) {
  if (frame.rows.gpus.empty()) {
    frame.canvas.put({area.x + 1, area.y}, "no GPU", Tone::dim);
    return;
  }
  const GpuRow& row = frame.rows.all_gpus[frame.rows.gpus[selected_gpu(frame.state, frame.rows)]];
  const int title = frame.canvas.put(
      {area.x, area.y},
      fmt::format(" GPU {} {} ", row.label, row.record == nullptr ? "" : model_words(row.record->gpu.name)),
      Tone::title);
  put_remarks(frame.canvas, {area.x + title + 1, area.y}, remarks_on(row, frame.scene), area.width - title - 1);
  if (row.record == nullptr) return;
  const std::string inventory = inventory_words(*row.record);
  frame.canvas.put({area.x + 1, area.y + 1}, inventory, Tone::dim, area.width - 1);
  const std::string next = !row.record->next_step.empty() ? row.record->next_step
                           : row.health != nullptr        ? row.health->next_step
                                                          : "";
  if (!next.empty())
    frame.canvas.put({area.x + 1, area.y + 2}, (frame.ascii() ? "-> " : "→ ") + next, Tone::plain, area.width - 1);
  const auto told = told_metrics(*row.record);
  if (told.empty()) return;
  const std::size_t selected = std::min(frame.state.metric, told.size() - 1);
  Rect list{area.x, area.y + 1 + kInventory, area.width, area.height - 1 - kInventory};
  if (const int height = detail_graph_height(area.height); height > 0) {
    draw_large_graph(frame, {list.x + 1, list.y, list.width - 1, height}, row, told[selected]);
    list = {list.x, list.y + height, list.width, list.height - height};
  }
  for (int i = 0; i < list.height; ++i) {
    const std::size_t nth = frame.state.first_line + static_cast<std::size_t>(i);
    if (nth >= told.size()) return;
    const Rect line{list.x, list.y + i, list.width, 1};
    draw_metric(frame, line, row, told[nth]);
    if (nth == selected) frame.canvas.invert({line.x, line.y, std::min(line.width, kNameColumn + kValueColumn + 3), 1});
  }
}

}  // namespace gpuwarden::view
