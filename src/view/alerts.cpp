// SPDX-License-Identifier: Apache-2.0
// The alerts that last, worst first.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

constexpr int kExplained = 3;  ///< rows below the list for the selected alert

Tone level_tone(telemetry::AlertLevel level) {
  if (level == telemetry::AlertLevel::info) return Tone::plain;
  return level == telemetry::AlertLevel::warning ? Tone::warning : Tone::fault;
}

void draw_alert(const Frame& frame, Rect area, const AlertRow& row) {
  const telemetry::Alert& alert = *row.alert;
  const bool seen = !alert.acknowledged_by.empty();
  const auto lasted = std::chrono::duration_cast<std::chrono::seconds>(frame.scene.now - alert.since);
  int x = area.x + 1;
  const auto column = [&](std::string_view text, int width, Tone tone) {
    frame.canvas.put({x, area.y}, text, tone, std::min(width, area.x + area.width - x));
    x += width + 1;
  };
  column(telemetry::to_string(alert.level), 8, seen ? Tone::dim : level_tone(alert.level));
  column(age_words(std::max(lasted, std::chrono::seconds(0))), 8, Tone::plain);
  const bool several = frame.scene.nodes.size() > 1;
  column(several ? fmt::format("{}:{}", row.node->name, alert.gpu.value) : fmt::format("GPU {}", alert.gpu.value),
         several ? 16 : 7, Tone::plain);
  const std::string seen_by = seen ? fmt::format(" (seen by {})", alert.acknowledged_by) : "";
  column((alert.message.empty() ? alert.rule : alert.message) + seen_by, area.x + area.width - x,
         seen ? Tone::dim : Tone::plain);
}

}  // namespace

std::vector<AlertRow> alert_rows(const Scene& scene) {
  std::vector<AlertRow> rows;
  for (const cluster::Node& node : scene.nodes) {
    for (const telemetry::Alert& alert : node.alerts)
      if (!alert.ended) rows.push_back({&node, &alert});
  }
  std::ranges::stable_sort(rows, [](const AlertRow& a, const AlertRow& b) {
    const bool a_open = a.alert->acknowledged_by.empty();
    const bool b_open = b.alert->acknowledged_by.empty();
    if (a_open != b_open) return a_open;
    if (a.alert->level != b.alert->level) return a.alert->level > b.alert->level;
    return a.alert->since < b.alert->since;
  });
  return rows;
}

std::size_t alerts_in_sight(Extent extent) {
  return static_cast<std::size_t>(std::max(0, extent.height - 3 - kExplained));
}

void draw_alerts(const Frame& frame, Rect area) {
  frame.canvas.put({area.x + 1, area.y}, "LEVEL    SINCE    WHERE   WHAT", Tone::title);
  const auto rows = alert_rows(frame.scene);
  if (rows.empty()) {
    frame.canvas.put({area.x + 1, area.y + 1}, "no alerts", Tone::good);
    return;
  }
  const std::size_t selected = std::min(frame.state.alert, rows.size() - 1);
  const int height = std::max(0, area.height - 1 - kExplained);
  for (int i = 0; i < height; ++i) {
    const std::size_t nth = frame.state.first_line + static_cast<std::size_t>(i);
    if (nth >= rows.size()) break;
    const Rect line{area.x, area.y + 1 + i, area.width, 1};
    draw_alert(frame, line, rows[nth]);
    if (nth == selected) frame.canvas.invert(line);
  }
  const telemetry::Alert& alert = *rows[selected].alert;
  const int below = area.y + area.height - kExplained + 1;
  if (height <= 0) return;
  frame.canvas.put({area.x + 1, below}, fmt::format("{}: {}", alert.rule, alert.condition), Tone::dim, area.width - 1);
  if (!alert.next_step.empty())
    frame.canvas.put({area.x + 1, below + 1}, (frame.ascii() ? "-> " : "→ ") + alert.next_step, Tone::plain,
                     area.width - 1);
}

}  // namespace gpuwarden::view
