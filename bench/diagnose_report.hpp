// SPDX-License-Identifier: Apache-2.0
// The figures of diagnose_corpus, for people and as JSON.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "naive_diagnosis.hpp"
#include "support/diagnosis_score.hpp"
#include "support/diagnosis_validation.hpp"

namespace gpuwarden::bench {

struct NaiveScore {
  NaiveStrategy strategy;
  std::string_view key;    ///< in JSON
  std::string_view title;  ///< for people
  testing::Accuracy accuracy;
};

struct Run {
  std::vector<std::filesystem::path> files;
  bool cross_validated = false;  ///< no case was answered by rules that may be from its own thread
  std::vector<testing::DiagnosisAnswer> answers;
  testing::DiagnosisScore score;
  std::array<NaiveScore, 3> naive;
  std::chrono::duration<double> first_call{};  ///< of an empty text: what is built once in a process
};

struct Times {
  std::chrono::duration<double> total{};
  const testing::DiagnosisAnswer* slowest = nullptr;
  std::size_t bytes = 0;
};

Times times_of(std::span<const testing::DiagnosisAnswer> answers);

/// Cells of the confusion table, most frequent first.
struct Confused {
  std::string_view expected;
  std::string_view answered;
  std::size_t cases = 0;
};
std::vector<Confused> confusions(const testing::DiagnosisScore& score);

/// `wrong`: every wrong case and every wrong fact too.
void print_run(const Run& run, bool wrong);
nlohmann::ordered_json json_of(const Run& run, bool wrong);

/// The figures of src/diagnosis/calibration.cpp, learned from the cases that are not kept back; what such figures are
/// worth on cases that they were not learned from. The answers are cross-validated ones.
void print_calibration(std::span<const testing::DiagnosisAnswer> answers);

}  // namespace gpuwarden::bench
