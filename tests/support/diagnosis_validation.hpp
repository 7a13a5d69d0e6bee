// SPDX-License-Identifier: Apache-2.0
// How far diagnoses carry beyond what their rules were written from, and whether confidences mean what they say.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/diagnosis_cases.hpp"
#include "support/diagnosis_score.hpp"

namespace gpuwarden::testing {

/// By rule, the threads in whose cases it speaks; kept back cases do not count, since no rule is from them.
using RuleThreads = std::map<std::string, std::set<std::string>, std::less<>>;
RuleThreads threads_of_rules(std::span<const DiagnosisCase> cases);

/// Rules that may have been written from a thread: those that name it (`inspired_by`), and those that speak nowhere
/// but in it.
diagnosis::RulesLeftOut rules_from(const std::string& thread, const RuleThreads& threads);

/// diagnose_cases(), but no case is answered by rules that may have been written from its own thread.
std::vector<DiagnosisAnswer> cross_validate(std::span<const DiagnosisCase> cases);

/// First causes whose confidence lies in one band, lowest first; bands of fewer than `fewest` answers are one with the
/// next.
struct ConfidenceBin {
  double low = 0;   ///< the lowest confidence in it
  double high = 0;  ///< the highest
  std::size_t cases = 0;
  double stated = 0;  ///< mean of the confidences
  double right = 0;   ///< share of answers that is_right()
};
std::vector<ConfidenceBin> confidence_bins(std::span<const DiagnosisAnswer> answers, std::size_t fewest = 30);

/// confidence = 1 / (1 + exp(-(intercept + slope * weight))), of first causes.
struct Calibration {
  double intercept = 0;
  double slope = 0;

  double confidence(double weight) const;
};

/// What fits best how often first causes of each weight are right: logistic regression by Newton's method, on targets
/// that Platt (1999) keeps off 0 and 1, so that few answers make no certainty.
Calibration calibrate(std::span<const DiagnosisAnswer> answers);

/// The same answers with the confidences that this calibration gives their weights.
std::vector<DiagnosisAnswer> recalibrated(std::span<const DiagnosisAnswer> answers, const Calibration& calibration);

/// Two halves of a corpus, threads whole: by FNV-1a of the thread.
bool is_in_first_half(const DiagnosisCase& asked);

}  // namespace gpuwarden::testing
