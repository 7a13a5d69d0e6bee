// SPDX-License-Identifier: Apache-2.0
#include "render/doctor_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"

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
  if (status == Status::not_judged) return Tone::dim;
  return status == Status::needs_update ? Tone::warning : Tone::good;
}

std::string counts_of(const doctor::Examination& examination) {
  std::vector<std::string> parts;
  for (const auto& [severity, name] :
       {std::pair(Severity::critical, "critical fault"), std::pair(Severity::error, "error"),
        std::pair(Severity::warning, "warning"), std::pair(Severity::info, "note")}) {
    const auto count = std::ranges::count(examination.findings, severity, &Finding::severity);
    if (count > 0) parts.push_back(counted(static_cast<std::uint64_t>(count), name));
  }
  return parts.empty() ? "nothing found" : join(parts, ", ");
}

/// A line for each status, worst first, with its areas.
std::string areas_text(const doctor::Examination& examination, const Style& style) {
  constexpr std::size_t kIndent = 15;
  std::string text;
  for (int i = std::to_underlying(Status::incompatible); i >= 0; --i) {
    const auto status = static_cast<Status>(i);
    std::vector<std::string> names;
    for (const auto& [area, own] : examination.areas) {
      if (own == status) names.push_back(spaced(to_string(area), '-'));
    }
    if (names.empty()) continue;
    const std::string label = fmt::format("  {:<12}", spaced(to_string(status)));
    text += fmt::format("{} {}\n", style.paint(label, tone_of(status)),
                        wrapped(join(names, ", "), kIndent, kIndent, style.width));
  }
  return text;
}

void add_finding(std::string& text, const Finding& finding, bool reasons, const Style& style) {
  constexpr std::size_t kIndent = 9;
  const std::string label = fmt::format("{:<8}", to_string(finding.severity));
  text += fmt::format("\n{} {}\n", style.paint(label, tone_of(finding.severity)),
                      wrapped(printable(finding.title), kIndent, kIndent, style.width));
  text += paragraph(finding.why, kIndent, kIndent, style);
  for (const std::string& step : finding.fix) {
    if (doctor::is_command(step))
      text += fmt::format("{:>{}}{} {}\n", "", kIndent, style.paint("$", Tone::dim), printable(step));
    else
      text += paragraph("- " + step, kIndent, kIndent + 2, style);
  }
  text += style.paint(fmt::format("{:>{}}[{}]\n", "", kIndent, finding.id), Tone::dim);
  if (!reasons) return;
  text += paragraph("source: " + finding.source, kIndent, kIndent, style);
  if (!finding.link.empty()) text += fmt::format("{:>{}}{}\n", "", kIndent, finding.link);
}

}  // namespace

std::string doctor_text(const doctor::Examination& examination, const std::string& subject, bool reasons,
                        const Style& style) {
  std::string text = subject.empty() ? "" : subject + "\n";
  text +=
      fmt::format("{}: {} ({})\n", style.paint(spaced(to_string(examination.overall)), tone_of(examination.overall)),
                  counts_of(examination), counted(examination.ran.size(), "check"));
  text += areas_text(examination, style);
  if (!examination.findings.empty() && examination.worst >= Severity::warning) {
    const Finding& first = examination.findings.front();
    if (!first.fix.empty()) text += fmt::format("\nFirst: {}\n", printable(first.fix.front()));
  }
  for (const Finding& finding : examination.findings) add_finding(text, finding, reasons, style);
  return text;
}

std::string check_list(const knowledge::Knowledge& knowledge) {
  std::string text;
  for (int area = 0; area <= std::to_underlying(doctor::Area::cluster); ++area) {
    text += fmt::format("{}:\n", to_string(static_cast<doctor::Area>(area)));
    for (const doctor::Check& check : doctor::checks()) {
      if (check.area == static_cast<doctor::Area>(area))
        text += fmt::format("  {:<38} {:<9} {}\n", check.id, to_string(check.severity), check.looks_at);
    }
  }
  if (!knowledge.rules().empty()) text += "site:\n";
  for (const knowledge::SiteRule& rule : knowledge.rules())
    text += fmt::format("  {:<38} {:<9} {}\n", "site:" + printable(rule.id), rule.severity, printable(rule.source));
  return text;
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

}  // namespace gpuwarden::cli
