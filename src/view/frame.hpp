// SPDX-License-Identifier: Apache-2.0
// The parts of a frame, each drawn by a function into its place.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/scene.hpp"
#include "gpuwarden/view/state.hpp"
#include "view/graph.hpp"
#include "view/layout.hpp"
#include "view/words.hpp"

namespace gpuwarden::view {

/// What all parts are drawn from and into.
struct Frame {
  const ViewState& state;
  const Scene& scene;
  const Rows& rows;
  Canvas& canvas;

  bool ascii() const { return canvas.ascii(); }
  Ink ink() const { return {.glyphs = state.glyphs}; }
};

void draw_header(const Frame& frame, Rect area);
void draw_sums(const Frame& frame, Rect area);
void draw_heat(const Frame& frame, const HeatMap& heat);
void draw_footer(const Frame& frame, Rect area);
void draw_cards(const Frame& frame, const Layout& layout);
void draw_lines(const Frame& frame, const Layout& layout);
void draw_processes(const Frame& frame, const Layout& layout);
void draw_detail(const Frame& frame, Rect area);
void draw_alerts(const Frame& frame, Rect area);
void draw_help(const Frame& frame, Rect area);

/// Writes remarks one behind the other, with commas, as far as there is room.
void put_remarks(Canvas& canvas, Point at, std::span<const Remark> remarks, int width);

/// A metric's edges on a graph: of a GPU's own limits where it has one, else of what is seen.
Axis axis_of(const facts::Metric& metric, const facts::GpuRecord& record, std::span<const float> seen);
/// The values of a metric for a graph of this width, under the state's zoom.
std::vector<float> graph_values(const Frame& frame, const GpuRow& row, std::size_t metric, int width);

/// The alerts of all nodes, worst first, with their nodes.
struct AlertRow {
  const cluster::Node* node = nullptr;
  const telemetry::Alert* alert = nullptr;
};
std::vector<AlertRow> alert_rows(const Scene& scene);
/// Lines of the help on a page of this width, and how many rows of the detail page are metrics that the GPU tells.
std::size_t help_lines(int width);
std::vector<std::size_t> told_metrics(const facts::GpuRecord& record);
/// Rows that are in sight of a page with a list.
std::size_t detail_rows_in_sight(Extent extent);
std::size_t alerts_in_sight(Extent extent);

}  // namespace gpuwarden::view
