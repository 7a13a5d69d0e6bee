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

  /// Finds the literals of which a line needs one to be worth looking at: those of every rule that may speak.
  const LiteralScanner& scanner() const { return speaking_->scanner; }
  bool fits(int index, const std::string& line) const;
  /// Whether the line, or those after it that the rule looks at, tell that it is not meant.
  bool rejects(int index, const std::string& line, const Surroundings& around) const;
  /// The rules that fit a normalised line, by index. Those that only silence are asked where another fits.
  std::vector<int> fitting(const std::string& line) const;
  const knowledge::DiagnosisRule& rule(int index) const { return rules_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return rules_.size(); }
  /// So many lines after an error may say which device it was.
  static constexpr std::size_t kNearLines = 3;
  /// What a rule that fits the line reads from it and from the lines around it.
  Facts facts(int index, const std::string& line, const Surroundings& around) const;

 private:
  struct Compiled;
  /// Literals, and the rules that want each.
  struct Index {
    explicit Index(const std::vector<std::pair<std::string_view, int>>& wanted);
    LiteralScanner scanner;
    std::vector<std::vector<int>> rules;
  };
  const Compiled& compiled(int index) const;

  std::span<const knowledge::DiagnosisRule> rules_;
  std::unique_ptr<Index> speaking_;
  std::unique_ptr<Index> silencing_;  ///< of the rules that only silence: asked where another spoke
  std::unique_ptr<Compiled[]> compiled_;
};

}  // namespace gpuwarden::diagnosis
