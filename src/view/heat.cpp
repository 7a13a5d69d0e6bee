// SPDX-License-Identifier: Apache-2.0
// Many GPUs at a glance: a cell each, or one for several where there are too many.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "gpuwarden/facts/use.hpp"
#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

/// Up to this load, in percent, a cell looks so.
struct HeatStep {
  std::int64_t most;
  char32_t glyph;
  char32_t ascii;
  Tone tone;
};
constexpr auto kHeatSteps = std::to_array<HeatStep>({{1, U'·', U'.', Tone::load0},
                                                     {30, U'░', U':', Tone::load1},
                                                     {60, U'▒', U'+', Tone::load2},
                                                     {85, U'▓', U'*', Tone::load3},
                                                     {100, U'█', U'#', Tone::load4}});
constexpr char32_t kTroubleGlyph = U'×';
constexpr char32_t kTroubleAscii = U'X';
constexpr char32_t kUnknownGlyph = U'?';
constexpr std::string_view kLegend = "a GPU each: · idle  ░▒▓█ load  × trouble  ? unknown";
constexpr std::string_view kAsciiLegend = "a GPU each: . idle  :+*# load  X trouble  ? unknown";

bool is_in_trouble(const GpuRow& row) {
  if (row.node->problem) return true;
  if (row.record == nullptr) return false;
  return facts::is_in_trouble(*row.record, row.health != nullptr && row.health->state == facts::HealthState::error);
}

/// The GPUs of a cell: in trouble if one is, else their mean load.
Cell cell_of(const Frame& frame, std::size_t first, std::size_t last) {
  std::int64_t load = 0;
  std::int64_t known = 0;
  for (std::size_t i = first; i < last; ++i) {
    const GpuRow& row = frame.rows.all_gpus[frame.rows.gpus[i]];
    if (is_in_trouble(row)) return {frame.ascii() ? kTroubleAscii : kTroubleGlyph, Tone::fault};
    if (row.record == nullptr || !row.record->sample.utilization_gpu) continue;
    load += row.record->sample.utilization_gpu->value;
    ++known;
  }
  if (known == 0) return {kUnknownGlyph, Tone::dim};
  const std::int64_t mean = load / known;
  const auto* step = std::ranges::find_if(kHeatSteps, [&](const HeatStep& one) { return mean <= one.most; });
  if (step == kHeatSteps.end()) --step;
  return {frame.ascii() ? step->ascii : step->glyph, step->tone};
}

void draw_legend(const Frame& frame, const HeatMap& heat, std::size_t cells) {
  const auto used = static_cast<int>(cells % static_cast<std::size_t>(heat.columns));
  const std::string_view text = frame.ascii() ? kAsciiLegend : kLegend;
  const int room = heat.area.width - (used == 0 ? heat.columns : used) - 2;
  if (heat.gpus_in_cell > 1 || display_width(text) > room) return;
  const Point end{heat.area.x + heat.area.width, heat.area.y + heat.area.height - 1};
  frame.canvas.put_right(end, text, Tone::dim);
}

}  // namespace

void draw_heat(const Frame& frame, const HeatMap& heat) {
  if (heat.area.height == 0) return;
  const std::size_t all = frame.rows.gpus.size();
  const std::size_t selected = selected_gpu(frame.state, frame.rows);
  const std::size_t cells = (all + heat.gpus_in_cell - 1) / heat.gpus_in_cell;
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t first = i * heat.gpus_in_cell;
    const std::size_t last = std::min(all, first + heat.gpus_in_cell);
    const Cell cell = cell_of(frame, first, last);
    const Point at = heat.place(i);
    frame.canvas.put_glyph(at, cell.glyph, cell.tone);
    if (selected >= first && selected < last) frame.canvas.invert({at.x, at.y, 1, 1});
  }
  draw_legend(frame, heat, cells);
}

}  // namespace gpuwarden::view
