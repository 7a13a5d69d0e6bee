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

const diagnosis::Cause* first_cause(const DiagnosisAnswer& answer) {
  return answer.diagnosis.causes.empty() ? nullptr : &answer.diagnosis.causes.front();
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

double Calibration::confidence(double weight) const { return 1 / (1 + std::exp(-(intercept + slope * weight))); }

Calibration calibrate(std::span<const DiagnosisAnswer> answers) {
  std::vector<std::pair<double, bool>> given;  // weight, whether right
  for (const DiagnosisAnswer& answer : answers) {
    if (const diagnosis::Cause* cause = first_cause(answer))
      given.emplace_back(diagnosis::weight_of(cause->confidence), answer.is_right());
  }
  const auto right = static_cast<double>(std::ranges::count(given, true, &std::pair<double, bool>::second));
  const double wrong = static_cast<double>(given.size()) - right;
  const double target_right = (right + 1) / (right + 2);
  const double target_wrong = 1 / (wrong + 2);
  Calibration fit;
  for (int step = 0; step < 50; ++step) {
    // Gradient and Hessian of the log likelihood in intercept and slope.
    double g0 = 0, g1 = 0, h00 = 1e-9, h01 = 0, h11 = 1e-9;
    for (const auto& [weight, is_right] : given) {
      const double p = fit.confidence(weight);
      const double missing = (is_right ? target_right : target_wrong) - p;
      const double curvature = p * (1 - p);
      g0 += missing;
      g1 += missing * weight;
      h00 += curvature;
      h01 += curvature * weight;
      h11 += curvature * weight * weight;
    }
    const double determinant = h00 * h11 - h01 * h01;
    fit.intercept += (h11 * g0 - h01 * g1) / determinant;
    fit.slope += (h00 * g1 - h01 * g0) / determinant;
  }
  return fit;
}

std::vector<DiagnosisAnswer> recalibrated(std::span<const DiagnosisAnswer> answers, const Calibration& calibration) {
  std::vector<DiagnosisAnswer> all(answers.begin(), answers.end());
  for (DiagnosisAnswer& answer : all) {
    if (answer.diagnosis.causes.empty()) continue;
    diagnosis::Cause& cause = answer.diagnosis.causes.front();
    cause.confidence = calibration.confidence(diagnosis::weight_of(cause.confidence));
  }
  return all;
}

bool is_in_first_half(const DiagnosisCase& asked) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : asked.source) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  // Names that differ in their last character differ in few bits of it: mixed as MurmurHash3 ends.
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccdU;
  return ((hash >> 33U) & 1U) == 0;
}

}  // namespace gpuwarden::testing
