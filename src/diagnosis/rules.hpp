// SPDX-License-Identifier: Apache-2.0
// The rules as patterns, and the literals by which a line is worth looking at.
#pragma once

#include <re2/re2.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diagnosis/literal_scanner.hpp"
#include "gpuwarden/diagnosis/event.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// The lines around a line, cleaned: nearest first.
struct Surroundings {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

/// Patterns are compiled when a line first has their literals: a log touches few of the hundreds.
class Rules {
 public:
  /// All rules of the knowledge base.
  static const Rules& all();
  explicit Rules(std::span<const knowledge::DiagnosisRule> rules);

  /// Finds the literals of which each rule needs one.
  const LiteralScanner& scanner() const { return *scanner_; }
  /// The rules that fit a normalised line, by index.
  std::vector<int> fitting(const std::string& line) const;
  const knowledge::DiagnosisRule& rule(int index) const { return rules_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return rules_.size(); }
  /// What a rule that fits the line reads from it and from the lines around it.
  Facts facts(int index, const std::string& line, const Surroundings& around) const;

 private:
  struct Compiled;
  const Compiled& compiled(int index) const;

  std::span<const knowledge::DiagnosisRule> rules_;
  std::unique_ptr<LiteralScanner> scanner_;
  std::vector<std::vector<int>> of_literal_;  ///< the rules that want a literal
  std::unique_ptr<Compiled[]> compiled_;
};

}  // namespace gpuwarden::diagnosis
