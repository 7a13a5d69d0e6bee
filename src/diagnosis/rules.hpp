// SPDX-License-Identifier: Apache-2.0
// The rules as compiled patterns, and the literals by which a line is worth looking at.
#pragma once

#include <re2/filtered_re2.h>
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

class Rules {
 public:
  /// All rules of the knowledge base; compiled once.
  static const Rules& all();
  explicit Rules(std::span<const knowledge::DiagnosisRule> rules);

  /// Finds the literals of which each rule needs some.
  const LiteralScanner& scanner() const { return *scanner_; }
  /// The rules that fit a normalised line, by index.
  std::vector<int> fitting(const std::string& line) const;
  const knowledge::DiagnosisRule& rule(int index) const { return rules_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return rules_.size(); }
  /// What a rule that fits the line reads from it and from the lines around it.
  Facts facts(int index, const std::string& line, const Surroundings& around) const;
  /// Rules whose patterns need no literal: they would have to be tried on every line.
  std::vector<int> without_literal() const;

 private:
  std::span<const knowledge::DiagnosisRule> rules_;
  re2::FilteredRE2 filter_;
  std::unique_ptr<LiteralScanner> scanner_;
  std::vector<std::vector<std::unique_ptr<RE2>>> extract_;
};

}  // namespace gpuwarden::diagnosis
