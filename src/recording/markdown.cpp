// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/markdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/compare.hpp"
#include "gpuwarden/recording/words.hpp"

namespace gpuwarden::recording {
namespace {

/// A text of strangers on one line of Markdown, none of whose characters mean anything there.
std::string plain(std::string_view text) {
  static constexpr std::string_view kSpecial = "\\`*_{}[]<>#|~!&";
  std::string safe;
  for (const char c : printable(text)) {
    if (kSpecial.contains(c)) safe += '\\';
    safe += c;
  }
  return safe;
}

/// A fence that the text does not contain.
std::string code(const std::string& text) {
  std::string fence = "`";
  while (text.contains(fence)) fence += '`';
  const char* gap = fence.size() > 1 ? " " : "";
  return fence + gap + text + gap + fence;
}

std::string row(const std::vector<std::string>& cells) { return "| " + join(cells, " | ") + " |\n"; }

std::string heading(const std::vector<std::string>& cells) {
  std::string rule = "|";
  for (std::size_t i = 0; i < cells.size(); ++i) rule += i == 0 ? " --- |" : " ---: |";
  return row(cells) + rule + "\n";
}

std::string facts_of(const Summary& summary) {
  std::string text;
  if (const std::string command = command_text(summary); !command.empty())
    text += fmt::format("- Command: {}{}\n", code(command),
                        summary.info.exit_code ? fmt::format(", exit code {}", *summary.info.exit_code) : "");
  text += fmt::format("- {}{}\n", summary.has_readings() ? "From " : "", window_text(summary));
  const Totals totals = totals_of(summary);
  text += fmt::format("- {} GPUs{}, mean utilization {}, energy {}\n", summary.gpus.size(),
                      totals.used ? fmt::format(", {} of them worked", *totals.used) : "",
                      quantity_text(totals.mean_utilization, "%"), total_energy_text(totals, summary.gpus.size()));
  return text;
}

std::string findings(const Summary& summary) {
  std::string text;
  for (const Waste& waste : summary.waste)
    text += fmt::format("- **{}**: {}. {}\n", level_text(waste.level), plain(waste.message), plain(waste.next_step));
  for (const std::string& caveat : caveats_of(summary)) text += fmt::format("- {}\n", plain(caveat));
  return text.empty() ? "- nothing stands out\n" : text;
}

std::string gpu_table(const Summary& summary) {
  std::string text =
      heading({"GPU", "Name", "Utilization", "Memory used", "Temperature", "Power", "Energy", "Idle", "Throttled"});
  for (const GpuSummary& gpu : summary.gpus) {
    std::vector<std::string> cells{fmt::format("{}{}", gpu.index.value, gpu.lost ? " (lost)" : ""), plain(gpu.name)};
    for (const std::string& cell : figure_cells(gpu)) cells.push_back(plain(cell));
    text += row(cells);
  }
  return text + "\nThree values are mean / most / least.\n";
}

std::string happenings(const Summary& summary) {
  constexpr std::size_t kMost = 50;
  if (summary.happenings.empty()) return {};
  std::string text = "\n### What happened\n\n";
  for (std::size_t i = 0; i < std::min(kMost, summary.happenings.size()); ++i)
    text += fmt::format("- {} {}\n", moment_text(summary.happenings[i].time, summary.window),
                        plain(happening_text(summary.happenings[i], summary)));
  if (summary.happenings.size() > kMost) text += fmt::format("- and {} more\n", summary.happenings.size() - kMost);
  return text;
}

std::string users(const Summary& summary) {
  const bool known = std::ranges::any_of(summary.users, [](const auto& use) { return !use.user.empty(); });
  if (!known) return {};
  std::string text = "\n### Who used them\n\n" + heading({"User", "GPU time held", "Mean utilization"});
  for (const telemetry::Use& use : summary.users)
    text += row(
        {use.user.empty() ? "not visible" : plain(use.user), held_text(use), quantity_text(use.mean_utilization, "%")});
  return text;
}

}  // namespace

std::string to_markdown(const Summary& summary) {
  return fmt::format("## GPUs of {}\n\n{}\n### What stands out\n\n{}\n### Each GPU\n\n{}{}{}",
                     plain(host_text(summary)), facts_of(summary), findings(summary), gpu_table(summary),
                     users(summary), happenings(summary));
}

std::string compare_markdown(const Summary& a, const Summary& b) {
  std::string text = fmt::format("## A and B\n\nA: {}\n\n{}\nB: {}\n\n{}\n", plain(host_text(a)), facts_of(a),
                                 plain(host_text(b)), facts_of(b));
  text += heading({"Figure", "A", "B", "B against A"});
  for (const ComparedFigure& figure : compare(a, b))
    text += row({std::string(figure.title), plain(text_of(figure, figure.a)), plain(text_of(figure, figure.b)),
                 plain(difference_text(figure))});
  return text +
         fmt::format("\n### What stands out in A\n\n{}\n### What stands out in B\n\n{}", findings(a), findings(b));
}

}  // namespace gpuwarden::recording
