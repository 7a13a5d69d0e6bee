// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/markup.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/words.hpp"
#include "recording/html_charts.hpp"
#include "recording/html_parts.hpp"

namespace gpuwarden::recording {
namespace {

std::string keys_of(const ChartSet& set) {
  if (set.names.size() < 2) return {};
  std::string keys;
  for (std::size_t i = 0; i < set.names.size(); ++i)
    keys += fmt::format("<button type=\"button\" class=\"key s{}{}\" aria-pressed=\"true\">{}</button>\n", i % 8,
                        i / 8 % 2 == 1 ? " dash" : "", markup_text(set.names[i]));
  return fmt::format("<div class=\"keys\" role=\"group\" aria-label=\"Lines that are shown\">\n{}</div>\n", keys);
}

std::string charts_section(const ChartSet& set) {
  if (set.charts.empty()) return {};
  std::string text = "<h2>Over time</h2>\n" + keys_of(set) + "<div class=\"charts\">\n" + heat_map_of(set);
  for (const Chart& chart : set.charts) text += figure_of(chart, set);
  return text + "</div>\n<script type=\"application/json\" id=\"data\">" + data_of(set) + "</script>\n";
}

constexpr std::string_view kFooter =
    "<footer>Lines are means, bands reach from the least to the most in each step; where nothing was read there is "
    "nothing. Times are UTC. Written by gpuwarden; this file needs no network.</footer>\n";

std::string side_of(const Summary& summary, std::string_view letter) {
  return head_of(summary, fmt::format("{}: {}", letter, host_text(summary)));
}

}  // namespace

std::string to_html(const Told& told, std::size_t most_points) {
  const Summary& summary = told.summary;
  const std::string title = fmt::format("GPUs of {}", host_text(summary));
  std::string body = head_of(summary, title) + tiles_of(summary) + "<main>\n" + findings_of(summary);
  body += gpu_table_of(summary);
  if (told.readings)
    body += charts_section(charts_of(*told.readings, summary, most_points));
  else
    body +=
        "<p class=\"faint\">There are no charts: this report kept no readings (gpuwarden run --record FILE "
        "does).</p>\n";
  body += uses_of(summary) + happenings_of(summary);
  return page_of(title, body + "</main>\n" + std::string(kFooter));
}

std::string compare_html(const Told& a, const Told& b, std::size_t most_points) {
  const std::string title = fmt::format("{} and {}", host_text(a.summary), host_text(b.summary));
  std::string body =
      side_of(a.summary, "A") + side_of(b.summary, "B") + "<main>\n" + comparison_of(a.summary, b.summary);
  if (a.readings && b.readings) body += charts_section(charts_of_both(*a.readings, *b.readings, most_points));
  body += "<h2>A</h2>\n" + findings_of(a.summary) + gpu_table_of(a.summary);
  body += "<h2>B</h2>\n" + findings_of(b.summary) + gpu_table_of(b.summary);
  return page_of(title, body + "</main>\n" + std::string(kFooter));
}

}  // namespace gpuwarden::recording
