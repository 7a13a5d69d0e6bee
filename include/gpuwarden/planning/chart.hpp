// SPDX-License-Identifier: Apache-2.0
// A plan's memory as a picture: a column for each moment of a step, its parts one on another, and the GPU's memory as a
// line across. Plain texts.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/answer.hpp"

namespace gpuwarden::planning {

struct ChartPart {
  std::string name;
  double gib = 0;
};
struct ChartColumn {
  std::string label;
  std::vector<ChartPart> parts;  ///< from the bottom
  bool peak = false;
};
struct MemoryChart {
  std::string title;
  std::string subtitle;
  double capacity_gib = 0;  ///< of the GPU, as a line across; 0: no line
  std::vector<ChartColumn> columns;
  std::vector<std::string> lines;  ///< sentences below, in HTML only
};

/// The memory of a plan's recommended strategy.
MemoryChart chart_of(const PlanAnswer& answer);

/// A whole SVG file, 860 x 480, that needs no style sheet, script or font of its own.
std::string chart_svg(const MemoryChart& chart);
/// A whole HTML file with the same picture, a table of its numbers and the sentences.
std::string chart_html(const MemoryChart& chart);
/// The text of one of the two; nothing is written (write_file_atomically does that). The ending of `file` chooses the
/// format: .svg, .html or .htm, in any letter case. Fails with invalid_argument on any other.
Result<std::string> draw_chart(const MemoryChart& chart, const std::string& file);

}  // namespace gpuwarden::planning
