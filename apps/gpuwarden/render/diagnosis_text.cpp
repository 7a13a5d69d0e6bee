// SPDX-License-Identifier: Apache-2.0
#include "render/diagnosis_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/overview.hpp"
#include "gpuwarden/diagnosis/terms.hpp"
#include "gpuwarden/doctor/finding.hpp"

namespace gpuwarden::cli {
namespace {

using diagnosis::Cause;
using diagnosis::Diagnosis;
using diagnosis::Evidence;

constexpr std::size_t kEvidenceIndent = 3;
constexpr std::size_t kEvidence = 2;
constexpr std::size_t kConsequences = 5;
constexpr std::size_t kLongestLine = 200;

/// What is read at a glance of a line that may be a whole page.
std::string beginning_of(std::string_view line) {
  std::string text = printable(trim(line));
  if (width_of(text) <= kLongestLine) return text;
  text = fit(text, kLongestLine);
  text.pop_back();  // the sign by which a cell of a table is seen to be cut
  return text + "...";
}

/// "run.log:40: what the line says", or the fact of a machine.
std::string evidence_text(const Evidence& evidence, const Style& style) {
  std::string place = printable(evidence.file);
  if (evidence.line > 0) place += fmt::format(":{}", evidence.line);
  if (place.empty()) place = "the machine";
  const std::size_t first = kEvidenceIndent + width_of(place) + 2;
  return fmt::format("{:>{}}{} {}\n", "", kEvidenceIndent, style.paint(place + ":", Tone::dim),
                     wrapped(beginning_of(evidence.text), first, kEvidenceIndent + 4, style.width));
}

Tone tone_of(double confidence) {
  constexpr double kSure = 0.8;
  return confidence >= kSure ? Tone::bad : Tone::warning;
}

/// "1. What happened", and below it how sure that is, and of what it is known: the beginning of an answer.
std::string answer_head(std::size_t number, std::string_view sentence, const std::string& sureness,
                        const std::string& id, const Style& style) {
  const std::string head = fmt::format("{}. ", number);
  return fmt::format(
      "{}\n{:>{}}{}  {}\n",
      style.paint(head + wrapped(printable(sentence), head.size(), kEvidenceIndent, style.width), Tone::bold), "",
      kEvidenceIndent, sureness, style.paint(fmt::format("[{}]", printable(id)), Tone::dim));
}

std::string link_text(const std::string& link) {
  return link.empty() ? "" : fmt::format("{:>{}}{}\n", "", kEvidenceIndent, printable(link));
}

std::string cause_text(const Cause& cause, std::size_t number, bool all, const Style& style) {
  const std::string sureness = fmt::format("{}, {:.0f} %", words_for(cause.confidence), cause.confidence * 100);
  std::string text = answer_head(number, cause.summary.empty() ? cause.title : cause.summary,
                                 style.paint(sureness, tone_of(cause.confidence)), cause.id, style);
  for (const std::string& reason : cause.reasons) text += labelled("why", reason, style);
  const auto lines = diagnosis::distinct_evidence(cause);
  const auto& followed = cause.consequences;
  text += first_of(lines, all ? lines.size() : kEvidence, kEvidenceIndent, "line",
                   [&](const Evidence* line) { return evidence_text(*line, style); });
  text += steps_text("do", cause.fix, kEvidenceIndent, style);
  text += steps_text("to make sure", cause.confirm, kEvidenceIndent, style);
  text += first_of(followed, all ? followed.size() : kConsequences, kEvidenceIndent, "consequence",
                   [&](const diagnosis::Consequence& one) { return labelled("then", one.text, style); });
  return text + link_text(cause.link);
}

/// "look earlier in run.log", "look at rank 3".
std::string where_to_look(const std::string& where) {
  if (where.empty()) return "look earlier, or at the other ranks";
  const bool is_direction = where.starts_with("earlier") || where.starts_with("further");
  return (is_direction ? "look " : "look at ") + where;
}

/// "a plain failure is there: run.log:3: KeyError: 'loss' (at train.py:88 in main)"; empty where there is none.
std::string plain_failure(const Diagnosis& diagnosis) {
  if (!diagnosis.ordinary) return "";
  const Evidence& evidence = *diagnosis.ordinary;
  const std::string frame =
      diagnosis.ordinary_frame.empty() ? "" : fmt::format(" (at {})", printable(diagnosis.ordinary_frame));
  return fmt::format("a plain failure is there: {}:{}: {}{}", printable(evidence.file), evidence.line,
                     beginning_of(evidence.text), frame);
}

/// What the plain failure means and what helps; empty where nothing is known of it.
std::string plain_advice_text(const Diagnosis& diagnosis, const Style& style) {
  const diagnosis::PlainAdvice advice = diagnosis::plain_advice(diagnosis);
  if (advice.says.empty()) return "";
  return paragraph(advice.says, kEvidenceIndent, kEvidenceIndent, style) +
         steps_text("do", advice.fix, kEvidenceIndent, style);
}

/// Failures and remarks beside the causes.
void add_remarks(std::string& text, const Diagnosis& diagnosis, bool causes_shown, const Style& style) {
  if (const std::string plain = plain_failure(diagnosis); causes_shown && !plain.empty())
    text += "\n" + paragraph("Beside it, " + plain, 0, 0, style);
  text += plain_advice_text(diagnosis, style);
  for (const diagnosis::Note& note : diagnosis.harmless) {
    const Evidence& line = note.evidence;
    text += paragraph(fmt::format("harmless: {} ({}:{}: {})", printable(note.text), printable(line.file), line.line,
                                  beginning_of(line.text)),
                      0, 3, style);
  }
}

/// The words of the message, for who reads one for the first time.
std::string words_of_memory(const Diagnosis& diagnosis, std::size_t shown, const Style& style) {
  const bool any = std::any_of(diagnosis.causes.begin(), diagnosis.causes.begin() + static_cast<std::ptrdiff_t>(shown),
                               diagnosis::speaks_of_memory);
  if (!any) return "";
  std::string words = "words: ";
  for (const diagnosis::Term& term : diagnosis::memory_terms().first(4))
    words += fmt::format("{}: {}; ", term.name, term.meaning);
  words += "more: gpuwarden diagnose --explain memory";
  return "\n" + paragraph(words, 0, 3, style);
}

/// What the doctor finds wrong with the environment in the same text, as one answer among the causes.
std::string finding_text(const doctor::Finding& finding, std::size_t number, const Style& style) {
  const bool dead = finding.severity == doctor::Severity::critical;
  std::string text =
      answer_head(number, finding.title,
                  style.paint("the environment in the same text", dead ? Tone::bad : Tone::warning), finding.id, style);
  text += labelled("why", finding.why, style);
  return text + steps_text("do", finding.fix, kEvidenceIndent, style) + link_text(finding.link);
}

/// Causes and findings in their order; of the causes the first `view.causes`, of the findings those that are not many.
std::string answers_text(const logs::Report& report, const DiagnosisView& view, bool follows_text, const Style& style) {
  constexpr std::size_t kFindings = 3;
  std::string text;
  std::size_t number = 0;
  std::size_t findings = 0;
  for (const logs::Answer& answer : report.answers) {
    if (answer.is_cause ? answer.index >= view.causes : !view.all_evidence && findings >= kFindings) continue;
    findings += answer.is_cause ? 0 : 1;
    text += ++number == 1 && !follows_text ? "" : "\n";
    text += answer.is_cause ? cause_text(report.diagnosis.causes[answer.index], number, view.all_evidence, style)
                            : finding_text(report.environment[answer.index], number, style);
  }
  if (findings < report.environment.size())
    text +=
        fmt::format("\n{} on the environment: --all\n", counted(report.environment.size() - findings, "more finding"));
  return text;
}

/// That nothing, or nothing likely, was found, in how much.
std::string nothing_text(const logs::Report& report, const Style& style) {
  const std::size_t files = report.logs.files.size();
  const std::string plain = plain_failure(report.diagnosis);
  return paragraph(
      fmt::format("{} found in {}{}{}", report.doubtful == 0 ? "nothing GPU-related" : "nothing that is likely",
                  counted(report.diagnosis.lines, "line"), files > 1 ? fmt::format(" of {} files", files) : "",
                  plain.empty() ? "" : "; " + plain),
      0, 0, style);
}

}  // namespace

std::string_view words_for(double confidence) {
  struct Words {
    double least;
    std::string_view words;
  };
  static constexpr Words kWords[] = {
      {0.95, "nearly certain"}, {0.8, "very likely"}, {0.6, "likely"}, {0.4, "possible"}};
  for (const Words& row : kWords) {
    // As it is shown: 40 % is one word, whatever is behind the point.
    if (std::round(confidence * 100) >= row.least * 100) return row.words;
  }
  return "a guess";
}

std::string steps_text(const std::string& label, const std::vector<std::string>& steps, std::size_t indent,
                       const Style& style) {
  if (steps.empty()) return "";
  std::string text = fmt::format("{:>{}}{}:\n", "", indent, label);
  for (const std::string& step : steps)
    text += doctor::is_command(step)
                ? fmt::format("{:>{}}{}\n", "", indent + 4, style.paint(printable(step), Tone::good))
                : paragraph("- " + printable(step), indent + 2, indent + 4, style);
  return text;
}

std::string labelled(std::string_view label, std::string_view words, const Style& style, std::size_t indent) {
  if (words.empty()) return "";
  const std::string head = fmt::format("   {}: ", label);
  return head + wrapped(printable(words), head.size(), indent == 0 ? head.size() : indent, style.width) + "\n";
}

std::string diagnosis_text(const logs::Report& report, const DiagnosisView& view, const Style& style) {
  const Diagnosis& diagnosis = report.diagnosis;
  std::string text = report.machine.empty() ? "" : printable(report.machine) + "\n";
  if (diagnosis.only_consequences)
    text += style.paint(
        paragraph("Only consequences are visible: " + printable(where_to_look(diagnosis.look_at)), 0, 0, style),
        Tone::warning);
  const std::size_t shown = std::min(view.causes, diagnosis.causes.size());
  if (const std::size_t failures = diagnosis::independent_failures(diagnosis);
      failures > 1 && !diagnosis.only_consequences)
    text += fmt::format("{} independent failures: none explains another\n", failures);
  text += answers_text(report, view, !text.empty(), style);
  if (shown < diagnosis.causes.size())
    text += fmt::format("\n{} less likely: --all\n",
                        counted(diagnosis.causes.size() - shown, "more cause is", "more causes are"));
  if (!logs::shows_failure(report)) text += nothing_text(report, style);
  text += words_of_memory(diagnosis, shown, style);
  add_remarks(text, diagnosis, shown > 0 || diagnosis.only_consequences, style);
  if (report.doubtful > 0 && (view.all_evidence || shown == 0))
    text += fmt::format("{} below --min-confidence\n", counted(report.doubtful, "cause is", "causes are"));
  return text;
}

}  // namespace gpuwarden::cli
