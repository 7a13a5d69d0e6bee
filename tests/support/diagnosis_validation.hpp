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

/// A step of a calibration: of answers with about this weight, this share is right.
struct CalibrationPoint {
  double weight = 0;
  double right = 0;
};

/// The monotone function of a cause's weight that fits best how often first causes are right (isotonic regression by
/// pooling adjacent violators), as the middles of its steps. Steps are of `fewest` answers or more, and their shares
/// are Laplace's: (right + 1) / (given + 2).
std::vector<CalibrationPoint> calibrate(std::span<const DiagnosisAnswer> answers, std::size_t fewest = 15);

/// Two halves of a corpus, threads whole: by FNV-1a of the thread.
bool is_in_first_half(const DiagnosisCase& asked);

}  // namespace gpuwarden::testing
