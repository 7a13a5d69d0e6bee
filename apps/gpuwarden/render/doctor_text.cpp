// SPDX-License-Identifier: Apache-2.0
#include "render/doctor_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/json.hpp"

namespace gpuwarden::cli {
namespace {

using doctor::Finding;
using doctor::Severity;
using doctor::Status;

Tone tone_of(Severity severity) {
  if (severity >= Severity::error) return Tone::bad;
  if (severity == Severity::warning) return Tone::warning;
  return severity == Severity::info ? Tone::dim : Tone::good;
}

Tone tone_of(Status status) {
  if (status == Status::incompatible) return Tone::bad;
  return status == Status::needs_update ? Tone::warning : Tone::good;
}

std::string spoken(Status status) {
  std::string text(to_string(status));
  std::ranges::replace(text, '_', ' ');
  return text;
}

/// Breaks a text at blanks; the first line begins at `first`, the others at `indent`.
std::string wrapped(std::string_view text, std::size_t first, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = first;
  for (const auto word : split_words(text)) {
    const std::size_t size = width_of(word);
    if (column > indent && column + 1 + size > width) {
      result.append("\n").append(indent, ' ');
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += size;
  }
  return result;
}

std::string counts_of(const doctor::Examination& examination) {
  std::vector<std::string> parts;
  for (const auto& [severity, one, many] :
       {std::tuple(Severity::critical, "critical fault", "critical faults"),
        std::tuple(Severity::error, "error", "errors"), std::tuple(Severity::warning, "warning", "warnings"),
        std::tuple(Severity::info, "note", "notes")}) {
    const auto count = std::ranges::count(examination.findings, severity, &Finding::severity);
    if (count > 0) parts.push_back(fmt::format("{} {}", count, count == 1 ? one : many));
  }
  return parts.empty() ? "nothing found" : join(parts, ", ");
}

void add_finding(std::string& text, const Finding& finding, bool reasons, const Style& style) {
  constexpr std::size_t kIndent = 9;
  const std::string label = fmt::format("{:<8}", to_string(finding.severity));
  text += fmt::format("\n{} {}\n", style.paint(label, tone_of(finding.severity)),
                      wrapped(printable(finding.title), kIndent, kIndent, style.width));
  text += fmt::format("{:>{}}{}\n", "", kIndent, wrapped(finding.why, kIndent, kIndent, style.width));
  for (const std::string& command : finding.fix)
    text += fmt::format("{:>{}}{} {}\n", "", kIndent, style.paint("$", Tone::dim), printable(command));
  text += style.paint(fmt::format("{:>{}}[{}]\n", "", kIndent, finding.id), Tone::dim);
  if (!reasons) return;
  text += fmt::format("{:>{}}source: {}\n", "", kIndent, wrapped(finding.source, kIndent + 8, kIndent, style.width));
  if (!finding.link.empty()) text += fmt::format("{:>{}}{}\n", "", kIndent, finding.link);
}

}  // namespace

std::string doctor_text(const doctor::Examination& examination, const std::string& subject, bool reasons,
                        const Style& style) {
  std::string text = subject.empty() ? "" : subject + "\n";
  text += fmt::format("{}: {} ({} checks)\n", style.paint(spoken(examination.overall), tone_of(examination.overall)),
                      counts_of(examination), examination.checks_run);
  std::vector<std::string> areas;
  for (const auto& [area, status] : examination.areas) {
    std::string name(to_string(area));
    std::ranges::replace(name, '_', '-');
    areas.push_back(fmt::format("{} {}", name, style.paint(spoken(status), tone_of(status))));
  }
  text += wrapped(join(areas, "; "), 0, 2, style.width) + "\n";
  if (!examination.findings.empty() && examination.worst >= Severity::warning) {
    const Finding& first = examination.findings.front();
    if (!first.fix.empty()) text += fmt::format("\nFirst: {}\n", printable(first.fix.front()));
  }
  for (const Finding& finding : examination.findings) add_finding(text, finding, reasons, style);
  return text;
}

std::string check_list() {
  std::string text;
  for (int area = 0; area <= std::to_underlying(doctor::Area::cluster); ++area) {
    text += fmt::format("{}:\n", to_string(static_cast<doctor::Area>(area)));
    for (const doctor::Check& check : doctor::checks()) {
      if (check.area == static_cast<doctor::Area>(area))
        text += fmt::format("  {:<38} {:<9} {}\n", check.id, to_string(check.severity), check.looks_at);
    }
  }
  return text;
}

nlohmann::json doctor_document(const doctor::Examination& examination, const facts::Snapshot& snapshot,
                               const doctor::Purpose& purpose) {
  nlohmann::json json = doctor::to_json(examination);
  json["simulated"] = snapshot.simulated;
  json["origin"] = snapshot.origin;
  json["host"] = snapshot.host;
  json["purpose"] = purpose.text.empty() ? nlohmann::json() : nlohmann::json(purpose.text);
  return json;
}

std::string comparison_text(const doctor::Comparison& comparison) {
  if (comparison.differences.empty())
    return fmt::format("{} facts compared on {} machines: no difference\n", comparison.compared,
                       comparison.machines.size());
  std::string text = fmt::format("{} of {} facts differ\n", comparison.differences.size(), comparison.compared);
  for (const auto& difference : comparison.differences) {
    text += fmt::format("\n{}\n", printable(difference.what));
    for (std::size_t i = 0; i < comparison.machines.size(); ++i) {
      const bool deviates =
          !difference.usual.empty() && difference.values[i] != difference.usual && difference.values[i] != "-";
      text += fmt::format("  {} {:<24} {}\n", deviates ? "!" : " ", printable(comparison.machines[i]),
                          printable(difference.values[i]));
    }
  }
  if (!comparison.odd_one_out.empty())
    text += fmt::format("\nThe odd one out is {}.\n", printable(comparison.odd_one_out));
  return text;
}

std::string fix_script(const doctor::Examination& examination) {
  std::string text = "#!/bin/sh\n# What gpuwarden doctor proposes, worst first. Read it before you run it.\n";
  for (const Finding& finding : examination.findings) {
    if (finding.fix.empty()) continue;
    text += fmt::format("\n# {}: {}\n", finding.id, printable(finding.title));
    for (const std::string& command : finding.fix) text += printable(command) + "\n";
  }
  return text;
}

}  // namespace gpuwarden::cli
