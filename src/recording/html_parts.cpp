// SPDX-License-Identifier: Apache-2.0
#include "recording/html_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gpuwarden/base/markup.hpp"
#include "gpuwarden/base/sha256.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/compare.hpp"
#include "gpuwarden/recording/words.hpp"
#include "recording/html_page.hpp"

namespace gpuwarden::recording {
namespace {

using telemetry::AlertLevel;
using telemetry::Use;

const char* glyph_of(AlertLevel level) {
  switch (level) {
    case AlertLevel::critical:
    case AlertLevel::error:
      return "✕";
    case AlertLevel::warning:
      return "!";
    case AlertLevel::info:
      return "i";
  }
  return "";
}

std::string finding_item(std::string_view tone, std::string_view glyph, const std::string& message,
                         const std::string& more) {
  return fmt::format("<li class=\"finding {}\" data-glyph=\"{}\"><b>{}</b>{}</li>\n", tone, glyph, safe(message),
                     more.empty() ? "" : fmt::format("<span>{}</span>", safe(more)));
}

/// A sentence's first letter as a capital, but of a program's name.
std::string sentence(std::string text) {
  const bool named = text.starts_with("gpuwarden") || text.starts_with("nvidia-smi");
  if (!named && !text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

struct Tile {
  std::string title;
  std::string value;
  std::string more;
};

std::vector<Tile> tiles_for(const Summary& summary) {
  const Totals totals = totals_of(summary);
  std::vector<Tile> tiles;
  tiles.push_back({"Duration", duration_text(summary.duration()), ""});
  const std::string count = fmt::format("{}", summary.gpus.size());
  tiles.push_back({"GPUs that worked", totals.used ? fmt::format("{}", *totals.used) : "-", "of " + count});
  tiles.push_back({"Mean GPU utilization", quantity_text(totals.mean_utilization, "%"), ""});
  tiles.push_back({"Idle", share_text(totals.idle_share), totals.idle_share ? "of GPU time" : ""});
  const auto& first = summary.gpus.empty() ? std::nullopt : summary.gpus[0].memory_total;
  tiles.push_back({"Peak memory", totals.peak_memory ? format_size(*totals.peak_memory) : "-",
                   totals.peak_memory && first ? "of " + format_size(*first) : ""});
  tiles.push_back({"Energy", total_energy_text(totals, summary.gpus.size()), ""});
  tiles.push_back({"Highest temperature", quantity_text(totals.peak_temperature, "°C"), ""});
  tiles.push_back({"Throttled", share_text(totals.throttled_share), totals.throttled_share ? "of GPU time" : ""});
  return tiles;
}

std::string meter(double percent) {
  return fmt::format(
      R"(<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><path class="all" d="M0 0h100v10h-100z"/>)"
      R"(<path class="part" d="M0 0h{:.1f}v10h-{:.1f}z"/></svg>)",
      std::clamp(percent, 0.0, 100.0), std::clamp(percent, 0.0, 100.0));
}

std::string figure_cell(const GpuSummary& gpu, std::string_view metric, std::string_view unit, bool bar) {
  const auto* figure = gpu.figure(metric);
  if (figure == nullptr) return "<td>-</td>";
  std::optional<double> share = figure->mean;
  if (unit == "B" && gpu.memory_total) share = figure->mean / static_cast<double>(gpu.memory_total->value) * 100;
  if (std::isnan(*share) || (unit == "B" && !gpu.memory_total)) share.reset();
  // Bytes may be of another size at either end; other units stand behind the mean.
  const std::string_view shown = unit == "B" ? unit : "";
  return fmt::format("<td>{}{} <small>{} – {}</small></td>", bar && share ? meter(*share) : "",
                     quantity_text(figure->mean, unit), quantity_text(figure->min, shown),
                     quantity_text(figure->max, shown));
}

std::string gpu_row(const GpuSummary& gpu) {
  std::string row = fmt::format("<tr><th scope=\"row\">{}{}</th><td class=\"text\">{}</td>", gpu.index.value,
                                gpu.lost ? " <span class=\"bad\">lost</span>" : "", safe(gpu.name));
  row += figure_cell(gpu, "utilization", "%", true) + figure_cell(gpu, "memory_used", "B", true);
  row += figure_cell(gpu, "temperature", "°C", false) + figure_cell(gpu, "power", "W", false);
  row += figure_cell(gpu, "clock_sm", "MHz", false);
  row += fmt::format("<td>{}</td><td>{}</td><td class=\"text wide\">{}</td></tr>\n", energy_text(gpu.energy),
                     share_text(gpu.idle_share()), safe(throttling_text(gpu)));
  return row;
}

std::string use_table(const std::vector<Use>& uses, std::string_view title, std::string Use::* who) {
  const bool known = std::ranges::any_of(uses, [&](const Use& use) { return !(use.*who).empty(); });
  if (!known) return {};
  std::string rows;
  for (const Use& use : uses) {
    const auto busy = std::chrono::milliseconds(static_cast<std::int64_t>(use.busy_seconds * 1000));
    rows +=
        fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    (use.*who).empty() ? "not visible" : safe(use.*who), held_text(use), duration_text(busy),
                    quantity_text(use.mean_utilization, "%"), use.peak_memory ? format_size(*use.peak_memory) : "-");
  }
  return fmt::format(
      "<div class=\"card scroll\"><table><thead><tr><th class=\"text\" scope=\"col\">{}</th><th scope=\"col\">GPU time "
      "held</th>"
      "<th scope=\"col\">at work</th><th scope=\"col\">mean utilization</th><th scope=\"col\">peak memory of a process"
      "</th></tr></thead><tbody>\n{}</tbody></table></div>\n",
      title, rows);
}

std::string base64_of_hex(const std::string& hex) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr unsigned kSix = 63;
  std::vector<unsigned> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const auto digit = [&](std::size_t at) {
      return static_cast<unsigned>(hex[at] <= '9' ? hex[at] - '0' : hex[at] - 'a' + 10);
    };
    bytes.push_back(digit(i) * 16 + digit(i + 1));
  }
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) { return at < bytes.size() ? bytes[at] : 0U; };
    const unsigned three = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
    for (unsigned part = 0; part < 4; ++part) {
      const bool padded = i + part > bytes.size();
      text += padded ? '=' : kDigits[three >> (18 - 6 * part) & kSix];
    }
  }
  return text;
}

}  // namespace

std::string safe(std::string_view text) { return markup_text(printable(text)); }

std::string policy_hash(std::string_view text) { return fmt::format("'sha256-{}'", base64_of_hex(sha256_hex(text))); }

std::string page_of(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {}; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}<div id=\"tip\" aria-live=\"polite\"></div>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      policy_hash(kPageStyle), policy_hash(kPageScript), safe(title), kPageStyle, body, kPageScript);
}

std::string head_of(const Summary& summary, std::string_view title) {
  const telemetry::StoreInfo& info = summary.info;
  std::string text = fmt::format("<header>\n<h1>{}{}</h1>\n", safe(title),
                                 info.simulated ? "<span class=\"badge\">simulated</span>" : "");
  const std::string command = command_text(summary);
  if (!command.empty())
    text +=
        fmt::format("<p><code>{}</code>{}</p>\n", safe(command),
                    info.exit_code ? fmt::format(" <span class=\"faint\">exit code</span> {}", *info.exit_code) : "");
  text += fmt::format("<p class=\"faint\">{}{}{}{}</p>\n</header>\n",
                      summary.has_readings()
                          ? fmt::format("{} to {}", format_utc(summary.window.from), format_utc(summary.window.to))
                          : "no reading",
                      info.interval.count() > 0 ? ", a reading every " + duration_text(info.interval) : "",
                      info.driver_version.empty() ? "" : ", driver " + safe(info.driver_version),
                      summary.run_id.empty() ? "" : ", run " + safe(summary.run_id));
  return text;
}

std::string tiles_of(const Summary& summary) {
  std::string text = "<dl class=\"tiles\">\n";
  for (const Tile& tile : tiles_for(summary))
    text += fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", tile.title, safe(tile.value),
                        tile.more.empty() ? "" : fmt::format(" <small>{}</small>", safe(tile.more)));
  return text + "</dl>\n";
}

std::string findings_of(const Summary& summary) {
  std::string text = "<h2>What stands out</h2>\n<ul class=\"findings\">\n";
  for (const Waste& waste : summary.waste)
    text += finding_item(level_text(waste.level), glyph_of(waste.level), sentence(waste.message),
                         sentence(waste.next_step));
  if (summary.waste.empty()) text += finding_item("ok", "✓", "Nothing was wasted as far as these checks see", "");
  for (const std::string& caveat : caveats_of(summary)) text += finding_item("info", "i", sentence(caveat), "");
  return text + "</ul>\n";
}

std::string gpu_table_of(const Summary& summary) {
  std::string text =
      "<h2>Each GPU</h2>\n<div class=\"card scroll\"><table>\n<caption>Means, and in small the least and the most. "
      "Energy marked ~ is integrated from power.</caption>\n<thead><tr><th class=\"text\" scope=\"col\">GPU</th>"
      "<th class=\"text\" scope=\"col\">Name</th><th scope=\"col\">Utilization</th><th scope=\"col\">Memory used</th>"
      "<th scope=\"col\">Temperature</th><th scope=\"col\">Power</th><th scope=\"col\">SM clock</th>"
      "<th scope=\"col\">Energy</th><th scope=\"col\">Idle</th><th class=\"text\" "
      "scope=\"col\">Throttled</th></tr></thead>"
      "\n<tbody>\n";
  for (const GpuSummary& gpu : summary.gpus) text += gpu_row(gpu);
  return text + "</tbody></table></div>\n";
}

std::string uses_of(const Summary& summary) {
  const std::string users = use_table(summary.users, "User", &Use::user);
  const std::string jobs = use_table(summary.jobs, "Job", &Use::job);
  return users.empty() && jobs.empty() ? "" : "<h2>Who used them</h2>\n" + users + jobs;
}

std::string happenings_of(const Summary& summary) {
  constexpr std::size_t kMost = 200;
  if (summary.happenings.empty()) return {};
  std::string rows;
  for (std::size_t i = 0; i < std::min(kMost, summary.happenings.size()); ++i) {
    const telemetry::Happening& one = summary.happenings[i];
    rows += fmt::format("<tr><td class=\"text\">{}</td><td class=\"text wrap\">{}</td></tr>\n",
                        moment_text(one.time, summary.window), safe(happening_text(one, summary)));
  }
  const std::size_t left = summary.happenings.size() - std::min(kMost, summary.happenings.size());
  return fmt::format(
      "<h2>What happened</h2>\n<div class=\"card scroll\"><table>{}<thead><tr><th class=\"text\" "
      "scope=\"col\">When</th>"
      "<th class=\"text\" scope=\"col\">What</th></tr></thead><tbody>\n{}</tbody></table></div>\n",
      left == 0 ? "" : fmt::format("<caption>and {} more</caption>", left), rows);
}

std::string comparison_of(const Summary& a, const Summary& b) {
  std::string rows;
  for (const ComparedFigure& figure : compare(a, b))
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", figure.title,
                        text_of(figure, figure.a), text_of(figure, figure.b), difference_text(figure));
  return fmt::format(
      "<h2>Side by side</h2>\n<div class=\"card scroll\"><table><thead><tr><th class=\"text\" scope=\"col\">Figure</th>"
      "<th scope=\"col\">A</th><th scope=\"col\">B</th><th scope=\"col\">B against A</th></tr></thead><tbody>\n{}"
      "</tbody></table></div>\n",
      rows);
}

}  // namespace gpuwarden::recording
