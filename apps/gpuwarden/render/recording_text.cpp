// SPDX-License-Identifier: Apache-2.0
#include "render/recording_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/compare.hpp"
#include "gpuwarden/recording/watch.hpp"
#include "gpuwarden/recording/words.hpp"
#include "render/columns.hpp"
#include "render/gpu_table.hpp"

namespace gpuwarden::cli {
namespace {

using recording::GpuSummary;
using recording::Summary;
using telemetry::AlertLevel;
using telemetry::Use;

Tone tone_of(AlertLevel level) {
  switch (level) {
    case AlertLevel::critical:
    case AlertLevel::error:
      return Tone::bad;
    case AlertLevel::warning:
      return Tone::warning;
    case AlertLevel::info:
      return Tone::dim;
  }
  return Tone::plain;
}

std::string level_word(AlertLevel level) { return level == AlertLevel::info ? "note" : recording::level_text(level); }

std::string heading(const Summary& summary, const Style& style) {
  std::string text = style.paint(recording::host_text(summary), Tone::bold);
  text += fmt::format(": {}, {}\n", counted(summary.gpus.size(), "GPU"), recording::window_text(summary));
  const std::string command = recording::command_text(summary);
  if (!command.empty())
    text += cut(fmt::format("command: {}", command), style) +
            (summary.info.exit_code ? fmt::format("  (exit code {})", *summary.info.exit_code) : "") + "\n";
  return text;
}

/// mean/max/min of each GPU, as monitors have summed up since there are monitors.
std::string gpu_rows(const Summary& summary, const Style& style) {
  std::vector<std::vector<std::string>> rows{
      {"GPU", "name", "utilization", "memory", "temperature", "power", "energy", "idle", "throttled"}};
  for (const GpuSummary& gpu : summary.gpus) {
    std::vector<std::string> cells = recording::figure_cells(gpu);
    cells.insert(cells.begin(), {fmt::format("{}", gpu.index.value), short_name(gpu.name)});
    rows.push_back(std::move(cells));
  }
  return columns(rows, style) + style.paint("  three values: mean / most / least", Tone::dim) + "\n";
}

std::string total_line(const Summary& summary) {
  const recording::Totals totals = recording::totals_of(summary);
  std::string text =
      fmt::format("\nall GPUs: mean utilization {}, energy {}", recording::quantity_text(totals.mean_utilization, "%"),
                  recording::total_energy_text(totals, summary.gpus.size()));
  if (totals.used) text += fmt::format(", {} of {} worked", *totals.used, summary.gpus.size());
  return text + "\n";
}

std::string users(const Summary& summary, const Style& style) {
  const bool known = std::ranges::any_of(summary.users, [](const Use& use) { return !use.user.empty(); });
  if (!known) return {};
  std::vector<std::vector<std::string>> rows{{"user", "GPU time held", "utilization", "peak memory"}};
  for (const Use& use : summary.users)
    rows.push_back({use.user.empty() ? "(not visible)" : use.user, recording::held_text(use),
                    recording::quantity_text(use.mean_utilization, "%"),
                    use.peak_memory ? format_size(*use.peak_memory) : "-"});
  return "\n" + columns(rows, style);
}

std::string happenings(const Summary& summary, const Style& style) {
  constexpr std::size_t kMost = 20;
  if (summary.happenings.empty()) return {};
  std::string text = "\n";
  for (std::size_t i = 0; i < std::min(kMost, summary.happenings.size()); ++i) {
    const std::string when = fmt::format("  {}  ", recording::moment_text(summary.happenings[i].time, summary.window));
    text += when +
            wrapped(recording::happening_text(summary.happenings[i], summary), when.size(), when.size(), style.width) +
            "\n";
  }
  if (summary.happenings.size() > kMost)
    text += fmt::format("  and {} more: --json tells all\n", summary.happenings.size() - kMost);
  return text;
}

}  // namespace

std::string waste_text(const std::vector<recording::Waste>& waste, const Style& style, std::size_t indent) {
  std::string text;
  const std::string blanks(indent, ' ');
  for (const recording::Waste& one : waste) {
    const std::string word = level_word(one.level) + ": ";
    text += blanks + style.paint(word, tone_of(one.level)) +
            wrapped(one.message, indent + word.size(), indent + 2, style.width) + "\n";
    text += blanks + "  " + style.paint(wrapped(one.next_step, indent + 2, indent + 2, style.width), Tone::dim) + "\n";
  }
  return text;
}

std::string gpu_errors_text(const Summary& summary) {
  constexpr std::size_t kMost = 10;
  std::string text;
  std::size_t told = 0;
  for (const telemetry::Happening& one : summary.happenings) {
    if (one.kind != recording::kXidKind && one.kind != recording::kEccKind) continue;
    if (++told <= kMost)
      text += fmt::format("  {} at {}\n", recording::happening_text(one, summary),
                          recording::moment_text(one.time, summary.window));
  }
  if (told > kMost) text += fmt::format("  and {} more\n", told - kMost);
  return text;
}

std::string summary_text(const Summary& summary, const Style& style) {
  std::string text = heading(summary, style) + "\n" + gpu_rows(summary, style) + total_line(summary);
  text += users(summary, style) + happenings(summary, style);
  if (!summary.waste.empty()) text += "\n" + waste_text(summary.waste, style, 0);
  for (const std::string& caveat : recording::caveats_of(summary))
    text += style.paint("note: ", Tone::dim) + wrapped(caveat, 6, 2, style.width) + "\n";
  return text;
}

std::string compare_text(const Summary& a, const Summary& b, const Style& style) {
  std::vector<std::vector<std::string>> rows{{"", "A", "B", "B against A"}};
  for (const recording::ComparedFigure& figure : recording::compare(a, b))
    rows.push_back({std::string(figure.title), recording::text_of(figure, figure.a),
                    recording::text_of(figure, figure.b), recording::difference_text(figure)});
  std::string text = "A: " + heading(a, style) + "B: " + heading(b, style) + "\n" + columns(rows, style);
  if (!a.waste.empty()) text += "\nA\n" + waste_text(a.waste, style, 2);
  if (!b.waste.empty()) text += "\nB\n" + waste_text(b.waste, style, 2);
  return text;
}

std::string progress_text(const recording::Recorder::Progress& progress, std::chrono::milliseconds passed,
                          const std::optional<std::chrono::milliseconds>& whole) {
  using std::chrono::floor;
  using std::chrono::seconds;
  std::string text = fmt::format("recording {} GPUs: {}{}, {} readings", progress.gpus,
                                 recording::duration_text(floor<seconds>(passed)),
                                 whole ? " of " + recording::duration_text(*whole) : "", progress.readings);
  if (progress.mean_utilization) text += fmt::format(", {:.0f} %", *progress.mean_utilization);
  if (progress.watts) text += fmt::format(", {:.0f} W", *progress.watts);
  if (progress.hottest) text += fmt::format(", hottest {:.0f} °C", *progress.hottest);
  if (progress.lost > 0) text += fmt::format(", {} not written", progress.lost);
  return text;
}

}  // namespace gpuwarden::cli
