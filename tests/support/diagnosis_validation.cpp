// SPDX-License-Identifier: Apache-2.0
#include "support/diagnosis_validation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "diagnosis/calibration.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::testing {
namespace {

/// Answers that a step of a calibration, or a bin, is made of.
struct Pool {
  std::size_t given = 0;
  std::size_t right = 0;
  double sum = 0;  ///< of weights or confidences

  double mean() const { return sum / static_cast<double>(given); }
  double share() const { return static_cast<double>(right + 1) / static_cast<double>(given + 2); }
  void take(const Pool& other) {
    given += other.given;
    right += other.right;
    sum += other.sum;
  }
};

const diagnosis::Cause* first_cause(const DiagnosisAnswer& answer) {
  return answer.diagnosis.causes.empty() ? nullptr : &answer.diagnosis.causes.front();
}

/// One pool for each weight, lowest first.
std::vector<Pool> pools_by_weight(std::span<const DiagnosisAnswer> answers) {
  std::map<double, Pool> pools;
  for (const DiagnosisAnswer& answer : answers) {
    const diagnosis::Cause* cause = first_cause(answer);
    if (cause == nullptr) continue;
    // Equal weights, whatever the way through the calibration and back did to their last digits.
    const double weight = std::round(diagnosis::weight_of(cause->confidence) * 1e6) / 1e6;
    pools[weight].take({1, answer.is_right() ? 1U : 0U, weight});
  }
  std::vector<Pool> sorted;
  for (const auto& [weight, pool] : pools) sorted.push_back(pool);
  return sorted;
}

/// The band that a confidence lies in: by whole tenths, and the highest tenth in two.
int band_of(double confidence) {
  constexpr double kRounding = 1e-9;  // 0.9 that came out of a calculation is meant as 0.9
  return static_cast<int>((confidence + kRounding) * 10) + (confidence + kRounding >= 0.95 ? 1 : 0);
}

}  // namespace

RuleThreads threads_of_rules(std::span<const DiagnosisCase> cases) {
  RuleThreads threads;
  for (const DiagnosisCase& one : cases) {
    if (one.kept_back) continue;
    for (const diagnosis::Event& event : diagnosis::read_log(one.text, one.id).events)
      threads[std::string(event.rule->id)].insert(one.source);
  }
  return threads;
}

diagnosis::RulesLeftOut rules_from(const std::string& thread, const RuleThreads& threads) {
  diagnosis::RulesLeftOut rules;
  for (const auto& rule : knowledge::diagnosis_rules()) {
    const bool named = std::ranges::find(rule.inspired_by, thread) != rule.inspired_by.end();
    const auto speaks = threads.find(rule.id);
    const bool only_there = speaks != threads.end() && speaks->second == std::set{thread};
    if (named || only_there) rules.emplace(rule.id);
  }
  return rules;
}

std::vector<DiagnosisAnswer> cross_validate(std::span<const DiagnosisCase> cases) {
  const RuleThreads threads = threads_of_rules(cases);
  std::vector<DiagnosisAnswer> answers;
  answers.reserve(cases.size());
  for (const DiagnosisCase& asked : cases)
    answers.push_back(
        diagnose_case(asked, asked.kept_back ? diagnosis::RulesLeftOut() : rules_from(asked.source, threads)));
  return answers;
}

std::vector<ConfidenceBin> confidence_bins(std::span<const DiagnosisAnswer> answers, std::size_t fewest) {
  std::map<int, std::vector<std::pair<double, bool>>> bands;
  for (const DiagnosisAnswer& answer : answers) {
    if (const diagnosis::Cause* cause = first_cause(answer))
      bands[band_of(cause->confidence)].emplace_back(cause->confidence, answer.is_right());
  }
  std::vector<ConfidenceBin> bins;
  std::vector<std::pair<double, bool>> open;
  const auto close = [&] {
    ConfidenceBin bin{.low = 1, .cases = open.size()};
    for (const auto& [confidence, right] : open) {
      bin.low = std::min(bin.low, confidence);
      bin.high = std::max(bin.high, confidence);
      bin.stated += confidence / static_cast<double>(open.size());
      bin.right += (right ? 1.0 : 0.0) / static_cast<double>(open.size());
    }
    open.clear();
    return bin;
  };
  std::size_t left = 0;
  for (const auto& [band, given] : bands) left += given.size();
  for (const auto& [band, given] : bands) {
    open.insert(open.end(), given.begin(), given.end());
    left -= given.size();
    // What is left over must not become a bin of a few.
    if (open.size() >= fewest && (left == 0 || left >= fewest)) bins.push_back(close());
  }
  if (!open.empty()) bins.push_back(close());
  return bins;
}

std::vector<CalibrationPoint> calibrate(std::span<const DiagnosisAnswer> answers, std::size_t fewest) {
  std::vector<Pool> steps;
  const auto join_last = [&] {
    steps[steps.size() - 2].take(steps.back());
    steps.pop_back();
  };
  for (const Pool& pool : pools_by_weight(answers)) {
    steps.push_back(pool);
    // A step that is too small, or after which answers are less often right, is one with the next.
    while (steps.size() > 1) {
      const Pool& before = steps[steps.size() - 2];
      if (before.given >= fewest && steps.back().share() > before.share()) break;
      join_last();
    }
  }
  while (steps.size() > 1 && steps.back().given < fewest) join_last();
  std::vector<CalibrationPoint> points;
  for (const Pool& step : steps) points.push_back({step.mean(), step.share()});
  return points;
}

bool is_in_first_half(const DiagnosisCase& asked) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : asked.source) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  // Names that differ in their last character differ in few bits of it: mixed as MurmurHash3 ends.
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccdU;
  return ((hash >> 33U) & 1U) == 0;
}

}  // namespace gpuwarden::testing
