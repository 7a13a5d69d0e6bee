// SPDX-License-Identifier: Apache-2.0
// Counts how often diagnoses of labelled failures are right. For tests and the benchmark, so that one place counts.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "support/diagnosis_cases.hpp"

namespace gpuwarden::testing {

/// What the diagnosis said to a case, and how long that took. The case is owned by whoever asked.
struct DiagnosisAnswer {
  const DiagnosisCase* asked = nullptr;
  diagnosis::Diagnosis diagnosis;
  std::chrono::duration<double> took{};

  /// The first cause's id, or kNoCause.
  std::string_view id() const;
  /// Whether it is the label, or what else is acceptable where the text does not decide.
  bool is_right() const;
};

/// Puts a case to diagnose_text, without some of its rules.
DiagnosisAnswer diagnose_case(const DiagnosisCase& asked, diagnosis::RulesLeftOut left_out = {});

/// Puts every case to diagnose_text. The answers point into `cases`.
std::vector<DiagnosisAnswer> diagnose_cases(std::span<const DiagnosisCase> cases);

struct Tally {
  std::size_t cases = 0;
  std::size_t strict = 0;   ///< the answer is the label
  std::size_t lenient = 0;  ///< the answer is the label or in `also`
  std::size_t decided = 0;  ///< strict, but lenient on cases that their text does not decide
};

/// The share of `part`, or of no cases 1: nothing went wrong.
double share(std::size_t part, std::size_t whole);

struct SetScore {
  Tally all;
  Tally composites;
  std::size_t undecidable = 0;
  std::map<std::string, Tally> kinds;
  std::size_t none_cases = 0;    ///< labelled kNoCause
  std::size_t false_alarms = 0;  ///< of these, answered with a cause
};

/// Short excerpts and whole reports apart.
struct Accuracy {
  SetScore short_cases;
  SetScore long_cases;
};

/// Counts an answer of any matcher.
void count_answer(const DiagnosisCase& asked, std::string_view answer, Accuracy& accuracy);

/// First causes whose confidence lies in [low, high); the last bucket holds 1 too.
struct Bucket {
  double low = 0;
  double high = 0;
  double sum = 0;  ///< of the confidences
  Tally tally;
};

struct FactTally {
  std::size_t values = 0;
  std::size_t right = 0;
};

struct FactMistake {
  std::string id;  ///< of the case
  std::string key;
  nlohmann::json expected;
  nlohmann::json answered;  ///< null: no cause has it
  bool is_number = false;
};

struct FactScore {
  FactTally numbers;  ///< whole numbers, lists of them, processes
  FactTally words;    ///< anything else
  std::map<std::string, FactTally> number_keys;
  std::vector<FactMistake> mistakes;
};

/// Holds the expected facts of a case against those of all causes; of a key that several have, the first one's counts.
/// Sizes (keys in _bytes, memory of processes) may be off by 0.1 %; other numbers not at all. Order does not count, and
/// a number is a list of one.
void count_facts(const DiagnosisCase& asked, const diagnosis::Diagnosis& answer, FactScore& score);

struct DiagnosisScore {
  Accuracy accuracy;
  FactScore facts;
  std::map<std::string, Tally> labels;                                   ///< by expected label
  std::map<std::pair<std::string, std::string>, std::size_t> confusion;  ///< {expected, answered}, where they differ
  std::array<Bucket, 6> reliability;
};

DiagnosisScore score_diagnoses(std::span<const DiagnosisAnswer> answers);

}  // namespace gpuwarden::testing
