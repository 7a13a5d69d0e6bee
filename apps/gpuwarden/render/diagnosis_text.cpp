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

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

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

void add_evidence(std::string& text, const Cause& cause, bool all, const Style& style) {
  const std::vector<const Evidence*> lines = diagnosis::distinct_evidence(cause);
  const std::size_t shown = all ? lines.size() : std::min(kEvidence, lines.size());
  for (std::size_t i = 0; i < shown; ++i) text += evidence_text(*lines[i], style);
  if (shown < lines.size())
    text += fmt::format("{:>{}}({}: --all)\n", "", kEvidenceIndent,
                        counted(lines.size() - shown, "more line", "more lines"));
}

void add_labelled(std::string& text, const std::string& label, std::string_view words, const Style& style) {
  const std::string head = label + ": ";
  const std::size_t column = kEvidenceIndent + head.size();
  text +=
      fmt::format("{:>{}}{}{}\n", "", kEvidenceIndent, head, wrapped(printable(words), column, column, style.width));
}

void add_consequences(std::string& text, const Cause& cause, bool all, const Style& style) {
  const auto& consequences = cause.consequences;
  const std::size_t shown = all ? consequences.size() : std::min(kConsequences, consequences.size());
  for (std::size_t i = 0; i < shown; ++i) add_labelled(text, "then", consequences[i].text, style);
  if (shown < consequences.size())
    text += fmt::format("{:>{}}({}: --all)\n", "", kEvidenceIndent,
                        counted(consequences.size() - shown, "more consequence", "more consequences"));
}

Tone tone_of(double confidence) {
  constexpr double kSure = 0.8;
  return confidence >= kSure ? Tone::bad : Tone::warning;
}

std::string cause_text(const Cause& cause, std::size_t number, bool all, const Style& style) {
  const std::string head = fmt::format("{}. ", number);
  const std::string sentence = cause.summary.empty() ? cause.title : cause.summary;
  std::string text =
      style.paint(head + wrapped(printable(sentence), head.size(), kEvidenceIndent, style.width), Tone::bold);
  const std::string sureness = fmt::format("{}, {:.0f} %", words_for(cause.confidence), cause.confidence * 100);
  text += fmt::format("\n{:>{}}{}  {}\n", "", kEvidenceIndent, style.paint(sureness, tone_of(cause.confidence)),
                      style.paint(fmt::format("[{}]", printable(cause.id)), Tone::dim));
  for (const std::string& reason : cause.reasons) add_labelled(text, "why", reason, style);
  add_evidence(text, cause, all, style);
  text += steps_text("do", cause.fix, kEvidenceIndent, style);
  text += steps_text("to make sure", cause.confirm, kEvidenceIndent, style);
  add_consequences(text, cause, all, style);
  if (!cause.link.empty()) text += fmt::format("{:>{}}{}\n", "", kEvidenceIndent, printable(cause.link));
  return text;
}

/// "look earlier in run.log", "look at rank 3".
std::string where_to_look(const std::string& where) {
  if (where.empty()) return "look earlier, or at the other ranks";
  const bool is_direction = where.starts_with("earlier") || where.starts_with("further");
  return (is_direction ? "look " : "look at ") + where;
}

std::string amount_text(const Diagnosis& diagnosis, std::size_t files) {
  std::string text = counted(diagnosis.lines, "line", "lines");
  if (files > 1) text += fmt::format(" of {} files", files);
  return text;
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
  std::string text;
  text += fmt::format("{:>{}}{}\n", "", kEvidenceIndent,
                      wrapped(advice.says, kEvidenceIndent, kEvidenceIndent, style.width));
  return text + steps_text("do", advice.fix, kEvidenceIndent, style);
}

/// Failures and remarks beside the causes.
void add_remarks(std::string& text, const Diagnosis& diagnosis, bool causes_shown, const Style& style) {
  if (const std::string plain = plain_failure(diagnosis); causes_shown && !plain.empty())
    text += "\n" + wrapped("Beside it, " + plain, 0, 0, style.width) + "\n";
  text += plain_advice_text(diagnosis, style);
  for (const diagnosis::Note& note : diagnosis.harmless) {
    const Evidence& line = note.evidence;
    text += wrapped(fmt::format("harmless: {} ({}:{}: {})", printable(note.text), printable(line.file), line.line,
                                beginning_of(line.text)),
                    0, 3, style.width) +
            "\n";
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
  return "\n" + wrapped(words, 0, 3, style.width) + "\n";
}

/// What the doctor finds wrong with the environment in the same text, as one answer among the causes.
std::string finding_text(const doctor::Finding& finding, std::size_t number, const Style& style) {
  const std::string head = fmt::format("{}. ", number);
  std::string text =
      style.paint(head + wrapped(printable(finding.title), head.size(), kEvidenceIndent, style.width), Tone::bold);
  const bool dead = finding.severity == doctor::Severity::critical;
  text += fmt::format("\n{:>{}}{}  {}\n", "", kEvidenceIndent,
                      style.paint("the environment in the same text", dead ? Tone::bad : Tone::warning),
                      style.paint(fmt::format("[{}]", printable(finding.id)), Tone::dim));
  if (!finding.why.empty()) add_labelled(text, "why", finding.why, style);
  text += steps_text("do", finding.fix, kEvidenceIndent, style);
  if (!finding.link.empty()) text += fmt::format("{:>{}}{}\n", "", kEvidenceIndent, printable(finding.link));
  return text;
}

/// Causes and findings in their order; of the causes the first `shown`, of the findings those that are not many.
std::string answers_text(const Diagnosis& diagnosis, const DiagnosisView& view, std::size_t shown, bool follows_text,
                         const Style& style) {
  constexpr std::size_t kFindings = 3;
  std::string text;
  std::size_t number = 0;
  std::size_t findings = 0;
  for (const logs::Answer& answer : view.answers) {
    if (answer.is_cause ? answer.index >= shown : !view.all_evidence && findings >= kFindings) continue;
    findings += answer.is_cause ? 0 : 1;
    text += ++number == 1 && !follows_text ? "" : "\n";
    text += answer.is_cause ? cause_text(diagnosis.causes[answer.index], number, view.all_evidence, style)
                            : finding_text(view.environment[answer.index], number, style);
  }
  if (findings < view.environment.size())
    text += fmt::format("\n{} on the environment: --all\n",
                        counted(view.environment.size() - findings, "more finding", "more findings"));
  return text;
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
  for (const std::string& step : steps) {
    const std::size_t at = indent + 4;
    if (doctor::is_command(step))
      text += fmt::format("{:>{}}{}\n", "", at, style.paint(printable(step), Tone::good));
    else
      text += fmt::format("{:>{}}- {}\n", "", indent + 2, wrapped(printable(step), at, at, style.width));
  }
  return text;
}

std::string diagnosis_text(const Diagnosis& diagnosis, const DiagnosisView& view, const Style& style) {
  std::string text = view.machine.empty() ? "" : printable(view.machine) + "\n";
  if (diagnosis.only_consequences)
    text += style.paint(
        wrapped("Only consequences are visible: " + printable(where_to_look(diagnosis.look_at)), 0, 0, style.width) +
            "\n",
        Tone::warning);
  const std::size_t shown = std::min(view.causes, diagnosis.causes.size());
  const std::string plain = plain_failure(diagnosis);
  if (const std::size_t failures = diagnosis::independent_failures(diagnosis);
      failures > 1 && !diagnosis.only_consequences)
    text += fmt::format("{} independent failures: none explains another\n", failures);
  text += answers_text(diagnosis, view, shown, !text.empty(), style);
  if (shown < diagnosis.causes.size())
    text += fmt::format("\n{} less likely: --all\n",
                        counted(diagnosis.causes.size() - shown, "more cause is", "more causes are"));
  if (shown == 0 && !diagnosis.only_consequences && view.environment.empty()) {
    const std::string sentence =
        fmt::format("{} found in {}{}", view.doubtful == 0 ? "nothing GPU-related" : "nothing that is likely",
                    amount_text(diagnosis, view.files), plain.empty() ? "" : "; " + plain);
    text += wrapped(sentence, 0, 0, style.width) + "\n";
  }
  text += words_of_memory(diagnosis, shown, style);
  add_remarks(text, diagnosis, shown > 0 || diagnosis.only_consequences, style);
  if (view.doubtful > 0 && (view.all_evidence || shown == 0))
    text += fmt::format("{} below --min-confidence\n", counted(view.doubtful, "cause is", "causes are"));
  return text;
}

std::string memory_terms_text(const Style& style) {
  std::string text = "What messages about GPU memory call what:\n";
  for (const diagnosis::Term& term : diagnosis::memory_terms()) {
    const std::string head = fmt::format("   {}: ", term.name);
    text += head + wrapped(term.meaning, head.size(), 6, style.width) + "\n";
  }
  return text;
}

}  // namespace gpuwarden::cli
