// SPDX-License-Identifier: Apache-2.0
#include "diagnose_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::bench {
namespace {

using namespace testing;
using Dump = nlohmann::json::error_handler_t;

std::string percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f}%", 100 * share(part, whole));
}

double milliseconds(std::chrono::duration<double> time) { return time.count() * 1000; }

void print_tally(const std::string& what, const Tally& tally) {
  if (tally.cases == 0) return;
  fmt::print("  {:<28} {:>5} {:>8} {:>8} {:>8}\n", what, tally.cases, percent(tally.strict, tally.cases),
             percent(tally.lenient, tally.cases), percent(tally.decided, tally.cases));
}

void print_set(const std::string& name, const SetScore& set) {
  if (set.all.cases == 0) return;
  print_tally(name, set.all);
  print_tally("  composites", set.composites);
  for (const auto& [kind, tally] : set.kinds) {
    if (set.kinds.size() > 1) print_tally("  kind " + kind, tally);
  }
  if (set.none_cases > 0)
    fmt::print("  {:<28} {:>5} of {} cases without a cause\n", "  false alarms", set.false_alarms, set.none_cases);
}

void print_accuracy(std::string_view who, const Accuracy& accuracy) {
  fmt::print("{:<30} {:>5} {:>8} {:>8} {:>8}\n", who, "cases", "strict", "lenient", "decided");
  print_set("short", accuracy.short_cases);
  print_set("long", accuracy.long_cases);
  fmt::print("\n");
}

void print_legend(const Accuracy& accuracy) {
  fmt::print(
      "strict   the first cause is the label; undecidable cases too\n"
      "lenient  the first cause is the label or one of `also`\n"
      "decided  strict, but lenient on the {} cases that their text does not decide (decidable_from_text is false)\n\n",
      accuracy.short_cases.undecidable + accuracy.long_cases.undecidable);
}

void print_facts(const FactScore& facts) {
  fmt::print("facts\n");
  fmt::print("  {:<28} {:>5} of {:>4} right {:>8}\n", "numbers", facts.numbers.right, facts.numbers.values,
             percent(facts.numbers.right, facts.numbers.values));
  fmt::print("  {:<28} {:>5} of {:>4} right {:>8} (for information: exact text, labels of people among them)\n\n",
             "words", facts.words.right, facts.words.values, percent(facts.words.right, facts.words.values));
}

void print_reliability(const std::array<Bucket, 6>& buckets) {
  fmt::print("{:<30} {:>5} {:>8} {:>8} {:>8}\n", "confidence of first causes", "given", "mean", "strict", "lenient");
  for (const Bucket& bucket : buckets) {
    const std::size_t given = bucket.tally.cases;
    const std::string mean = given == 0 ? "-" : fmt::format("{:.2f}", bucket.sum / static_cast<double>(given));
    fmt::print("  {:<28} {:>5} {:>8} {:>8} {:>8}\n", fmt::format("{:.1f} to {:.1f}", bucket.low, bucket.high), given,
               mean, percent(bucket.tally.strict, given), percent(bucket.tally.lenient, given));
  }
  fmt::print("\n");
}

void print_bins(std::span<const ConfidenceBin> bins) {
  fmt::print("{:<30} {:>5} {:>8} {:>8} {:>8}\n", "confidence, bins of 30 or more", "given", "stated", "right", "off");
  for (const ConfidenceBin& bin : bins)
    fmt::print("  {:<28} {:>5} {:>8} {:>8} {:>+8.1f}\n", fmt::format("{:.2f} to {:.2f}", bin.low, bin.high), bin.cases,
               fmt::format("{:.1f}%", 100 * bin.stated), fmt::format("{:.1f}%", 100 * bin.right),
               100 * (bin.stated - bin.right));
  fmt::print("\n");
}

std::vector<DiagnosisAnswer> those_that(std::span<const DiagnosisAnswer> answers, bool (*fits)(const DiagnosisCase&)) {
  std::vector<DiagnosisAnswer> some;
  std::ranges::copy_if(answers, std::back_inserter(some), [&](const auto& answer) { return fits(*answer.asked); });
  return some;
}

bool is_kept_back(const DiagnosisCase& asked) { return asked.kept_back; }
bool is_open(const DiagnosisCase& asked) { return !asked.kept_back; }

/// Cases from which rules may have been written, and those that chose nothing.
void print_halves(const Run& run) {
  const auto kept_back = those_that(run.answers, is_kept_back);
  if (kept_back.empty()) return;
  print_accuracy("of these: kept back", score_diagnoses(kept_back).accuracy);
  print_accuracy("of these: not kept back", score_diagnoses(those_that(run.answers, is_open)).accuracy);
}

void print_labels(const DiagnosisScore& score) {
  fmt::print("{:<30} {:>5} {:>8} {:>8}\n", "recall by label", "cases", "strict", "lenient");
  for (const auto& [label, tally] : score.labels)
    fmt::print("  {:<28} {:>5} {:>8} {:>8}\n", label, tally.cases, percent(tally.strict, tally.cases),
               percent(tally.lenient, tally.cases));
  fmt::print("\n{:<30}   {:<28} {:>5}\n", "confused: expected", "answered", "cases");
  for (const Confused& cell : confusions(score))
    fmt::print("  {:<28}   {:<28} {:>5}\n", cell.expected, cell.answered, cell.cases);
  fmt::print("\n");
}

void print_times(const Run& run) {
  const Times times = times_of(run.answers);
  fmt::print("time\n  first call  {:.1f} ms (of an empty text: what is built once)\n", milliseconds(run.first_call));
  if (times.slowest == nullptr) return;
  const double total = milliseconds(times.total);
  fmt::print("  all cases   {:.1f} ms, {} bytes\n  per case    {:.3f} ms\n  slowest     {:.3f} ms ({}, {} bytes)\n",
             total, times.bytes, total / static_cast<double>(run.answers.size()), milliseconds(times.slowest->took),
             times.slowest->asked->id, times.slowest->asked->text.size());
}

void print_cause(const diagnosis::Cause& cause) {
  fmt::print("    {} ({:.2f})", cause.id, cause.confidence);
  if (cause.evidence.empty()) {
    fmt::print(" without evidence\n");
    return;
  }
  const diagnosis::Evidence& evidence = cause.evidence.front();
  fmt::print(" {}:{}: {}\n", evidence.file, evidence.line, printable(evidence.text));
}

void print_wrong_case(const DiagnosisAnswer& answer) {
  const DiagnosisCase& asked = *answer.asked;
  if (asked.is_right(answer.id())) return;
  const auto& causes = answer.diagnosis.causes;
  const std::string confidence = causes.empty() ? "" : fmt::format(" with {:.2f}", causes.front().confidence);
  fmt::print("  {} expected {}, answered {}{}{}{}\n", asked.id, asked.label, answer.id(), confidence,
             asked.is_acceptable(answer.id()) ? ", acceptable" : "", asked.decidable ? "" : ", undecidable");
  for (std::size_t i = 0; i < std::min<std::size_t>(2, causes.size()); ++i) print_cause(causes[i]);
}

void print_wrong_facts(const FactScore& facts) {
  fmt::print("\nnumbers by key\n");
  for (const auto& [key, tally] : facts.number_keys)
    fmt::print("  {:<28} {:>5} of {:>4} right {:>8}\n", key, tally.right, tally.values,
               percent(tally.right, tally.values));
  fmt::print("\nwrong facts\n");
  auto mistakes = facts.mistakes;
  std::ranges::stable_sort(mistakes, {}, [](const FactMistake& one) { return std::pair(!one.is_number, one.key); });
  for (const FactMistake& mistake : mistakes)
    fmt::print("  {:<28} {} expected {} answered {}{}\n", mistake.key, mistake.id,
               mistake.expected.dump(-1, ' ', false, Dump::replace),
               mistake.answered.dump(-1, ' ', false, Dump::replace), mistake.is_number ? "" : " (word)");
}

}  // namespace

Times times_of(std::span<const DiagnosisAnswer> answers) {
  Times times;
  for (const DiagnosisAnswer& answer : answers) {
    times.total += answer.took;
    times.bytes += answer.asked->text.size();
    if (times.slowest == nullptr || answer.took > times.slowest->took) times.slowest = &answer;
  }
  return times;
}

void print_calibration(std::span<const DiagnosisAnswer> answers) {
  const auto open = those_that(answers, is_open);
  const Calibration whole = calibrate(open);
  fmt::print(
      "src/diagnosis/calibration.cpp, learned from {} cases:\n"
      "constexpr double kIntercept = {:.3f};\nconstexpr double kSlope = {:.3f};\n\n"
      "checked: each half of these cases with what is learned from the other half\n",
      open.size(), whole.intercept, whole.slope);
  const auto first = those_that(open, is_in_first_half);
  const auto second = those_that(open, [](const auto& asked) { return !is_in_first_half(asked); });
  auto checked = recalibrated(first, calibrate(second));
  std::ranges::copy(recalibrated(second, calibrate(first)), std::back_inserter(checked));
  print_bins(confidence_bins(checked));
  fmt::print("and the cases that are kept back, with the figures above\n");
  print_bins(confidence_bins(recalibrated(those_that(answers, is_kept_back), whole)));
}

std::vector<Confused> confusions(const DiagnosisScore& score) {
  std::vector<Confused> cells;
  for (const auto& [names, cases] : score.confusion) cells.push_back({names.first, names.second, cases});
  std::ranges::stable_sort(cells, std::greater{}, &Confused::cases);
  return cells;
}

void print_run(const Run& run, bool wrong) {
  for (const auto& file : run.files) fmt::print("{}\n", file.string());
  fmt::print("\n");
  if (run.cross_validated)
    fmt::print(
        "cross-validated: no case is answered by rules that name its thread (inspired_by), or that speak in no other\n"
        "one. Kept back cases inspired no rule, and are answered by all.\n\n");
  print_accuracy("gpuwarden diagnose", run.score.accuracy);
  print_halves(run);
  for (const NaiveScore& naive : run.naive) print_accuracy(fmt::format("naive, {}", naive.title), naive.accuracy);
  print_legend(run.score.accuracy);
  fmt::print("naive    {} substrings, each with a label (bench/naive_diagnosis.cpp)\n\n", naive_pattern_count());
  print_facts(run.score.facts);
  print_reliability(run.score.reliability);
  print_bins(confidence_bins(run.answers));
  print_labels(run.score);
  print_times(run);
  if (!wrong) return;
  fmt::print("\nwrong cases\n");
  for (const DiagnosisAnswer& answer : run.answers) print_wrong_case(answer);
  print_wrong_facts(run.score.facts);
}

}  // namespace gpuwarden::bench
