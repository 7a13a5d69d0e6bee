// SPDX-License-Identifier: Apache-2.0
// The planner held against tables of published measurements.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "planner/rows.hpp"

namespace gpuwarden::bench {

/// One row's answer. A refused row has an error of 100%.
struct Answer {
  std::string id;
  std::string model;
  std::string source;
  std::string group;     ///< training, inference, whole_gpu, incomplete
  double predicted = 0;  ///< bytes, at most what the card has
  double measured = 0;
  double error = 1;            ///< predicted / measured - 1
  double unbounded_error = 1;  ///< the same without the card's bound
  std::string refused;         ///< why; empty: answered
  bool chose = false;          ///< some coefficient was chosen while looking at this row
};

struct Spread {
  std::size_t rows = 0;
  double median = 0;  ///< of the absolute errors, percent
  double p90 = 0;
  double worst = 0;
};
Spread spread_of(std::vector<double> absolute_errors);

struct TruthReport {
  std::vector<Answer> answers;
  std::size_t skipped = 0;  ///< rows that are not settings-complete; answered ones are in group "incomplete"
  std::map<std::string, Spread> groups;
  std::map<std::string, Spread> unbounded;  ///< the same, of what was predicted without the card's bound
  std::map<std::string, Spread> held_out;   ///< the same, of rows that chose no coefficient
  std::map<std::string, Spread> sources;    ///< "training fms-acceleration" ...
};
/// Every settings-complete row of a truth table is answered; one that cannot be is named and counts 100%.
Result<TruthReport> evaluate_truth(const std::filesystem::path& file);

struct ParameterReport {
  std::size_t rows = 0;  ///< with a published exact count
  std::size_t exact = 0;
  std::vector<std::string> missed;
};
Result<ParameterReport> evaluate_parameters(const std::filesystem::path& file);

struct FitReport {
  std::size_t rows = 0;
  std::size_t right = 0;
  std::vector<std::string> missed;
};
/// Runs on A100s of 80 GB: "ran" or no result, which is read as out of memory (not proven).
Result<FitReport> evaluate_fits(const std::filesystem::path& file);

struct PeerReport {
  std::string peer;
  Spread peers;  ///< on the cases that it answers
  Spread ours;   ///< on the same
};
Result<std::vector<PeerReport>> evaluate_peers(const std::filesystem::path& file);

/// Which rows were looked at when coefficients were chosen: a sentence for each source.
std::vector<std::pair<std::string, std::string>> coefficients_chosen_on();

}  // namespace gpuwarden::bench
