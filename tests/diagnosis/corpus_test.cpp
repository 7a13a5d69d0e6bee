// SPDX-License-Identifier: Apache-2.0
// Labelled failures from public threads, where a corpus is present: how many diagnoses have to be right.
#include "support/corpus.hpp"
#include "support/diagnosis_score.hpp"

namespace gpuwarden::diagnosis {
namespace {

using namespace gpuwarden::testing;

constexpr double kShortStrict = 0.90;
constexpr double kLongStrict = 0.80;
constexpr std::size_t kFalseAlarms = 3;  ///< among the short cases, and among the long ones
constexpr double kNumbers = 0.97;

/// "d002 expected oom_other_process, answered none", a line each.
std::string wrong_ones(const std::vector<DiagnosisAnswer>& answers) {
  std::string lines;
  for (const DiagnosisAnswer& answer : answers) {
    if (!answer.asked->is_right(answer.id()))
      lines += answer.asked->id + " expected " + answer.asked->label + ", answered " + std::string(answer.id()) + "\n";
  }
  return lines;
}

std::string wrong_numbers(const FactScore& facts) {
  std::string lines;
  for (const FactMistake& mistake : facts.mistakes) {
    if (mistake.is_number)
      lines += mistake.id + " " + mistake.key + " expected " + mistake.expected.dump() + ", answered " +
               mistake.answered.dump() + "\n";
  }
  return lines;
}

void expect_floor(const SetScore& set, double floor, const std::vector<DiagnosisAnswer>& answers) {
  ASSERT_GT(set.all.cases, 0U);
  EXPECT_GE(share(set.all.strict, set.all.cases), floor) << wrong_ones(answers);
  EXPECT_LE(set.false_alarms, kFalseAlarms) << wrong_ones(answers);
}

TEST(DiagnosisCorpus, ShortExcerptsAreDiagnosedAndTheirNumbersRead) {
  const auto folder = corpus();
  if (!folder) GTEST_SKIP() << "no corpus here";
  const auto cases = read_diagnosis_cases(*folder / "diagnose/cases.jsonl");
  ASSERT_TRUE(cases) << cases.error().message;
  const auto answers = diagnose_cases(*cases);
  const DiagnosisScore score = score_diagnoses(answers);
  expect_floor(score.accuracy.short_cases, kShortStrict, answers);
  EXPECT_GE(share(score.facts.numbers.right, score.facts.numbers.values), kNumbers) << wrong_numbers(score.facts);
}

TEST(DiagnosisCorpus, WholeReportsAreDiagnosed) {
  const auto folder = corpus();
  if (!folder) GTEST_SKIP() << "no corpus here";
  const auto cases = read_diagnosis_cases(*folder / "diagnose/long_cases.jsonl");
  ASSERT_TRUE(cases) << cases.error().message;
  const auto answers = diagnose_cases(*cases);
  expect_floor(score_diagnoses(answers).accuracy.long_cases, kLongStrict, answers);
}

}  // namespace
}  // namespace gpuwarden::diagnosis
