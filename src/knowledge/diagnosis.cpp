// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/diagnosis.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpuwarden::knowledge {
namespace {

// Pointers in these tables would be relocated at every start of every program, of which few diagnose anything: 20,000
// of them, in pages that nobody else shares then. So rows say where their texts lie, and those who ask pay for it.

/// A text in kBlob.
struct Piece {
  std::uint32_t begin;
  std::uint32_t size;
};

/// Rows of kTexts, kPairs or kExamples.
struct Range {
  std::uint32_t begin;
  std::uint32_t count;
};

struct PairRow {
  Piece key;
  Piece value;
};

struct ExampleRow {
  Piece text;
  Piece facts;
  Piece source;
};

struct CauseRow {
  Piece id;
  Piece area;
  Piece title;
  Range summary;
  Range fix;
  Range confirm;
  Piece link;
  Piece source;
  Range explains;
  Restart restart;
  Range remedy;
  bool fewer_ranks;
};

struct RuleRow {
  Piece id;
  Piece cause;
  Role role;
  Piece pattern;
  Range literals;
  Range extract;
  int lines;
  int before;
  Range needs;
  Range set;
  Range when;
  Range unless;
  Piece context;
  bool any_level;
  double strength;
  Range overlaps;
  Range examples;
  Piece says;
  Range fix;
  Piece link;
  Piece reject;
  Range inspired_by;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "knowledge/diagnosis.inc"
#pragma GCC diagnostic pop

std::string_view text_of(const Piece& piece) { return {&kBlob[piece.begin], piece.size}; }

template <class T>
std::span<const T> part_of(const std::vector<T>& rows, const Range& range) {
  return std::span(rows).subspan(range.begin, range.count);
}

class Tables {
 public:
  Tables() {
    for (const Piece& piece : kTexts) texts_.push_back(text_of(piece));
    for (const PairRow& row : kPairs) pairs_.emplace_back(text_of(row.key), text_of(row.value));
    for (const ExampleRow& row : kExamples)
      examples_.push_back({text_of(row.text), text_of(row.facts), text_of(row.source)});
    for (const CauseRow& row : kCauses) add(row);
    for (const RuleRow& row : kRules) add(row);
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  Tables(Tables&&) = delete;
  Tables& operator=(Tables&&) = delete;
  ~Tables() = default;

  const std::vector<DiagnosisRule>& rules() const { return rules_; }
  const std::vector<DiagnosisCause>& causes() const { return causes_; }

 private:
  std::span<const std::string_view> texts(const Range& range) const { return part_of(texts_, range); }

  void add(const CauseRow& row) {
    causes_.push_back({.id = text_of(row.id),
                       .area = text_of(row.area),
                       .title = text_of(row.title),
                       .summary = texts(row.summary),
                       .fix = texts(row.fix),
                       .confirm = texts(row.confirm),
                       .link = text_of(row.link),
                       .source = text_of(row.source),
                       .explains = texts(row.explains),
                       .restart = row.restart,
                       .remedy = part_of(pairs_, row.remedy),
                       .fewer_ranks = row.fewer_ranks});
  }

  void add(const RuleRow& row) {
    rules_.push_back({.id = text_of(row.id),
                      .cause = text_of(row.cause),
                      .role = row.role,
                      .pattern = text_of(row.pattern),
                      .literals = texts(row.literals),
                      .extract = texts(row.extract),
                      .lines = row.lines,
                      .before = row.before,
                      .needs = texts(row.needs),
                      .set = part_of(pairs_, row.set),
                      .when = texts(row.when),
                      .unless = texts(row.unless),
                      .context = text_of(row.context),
                      .any_level = row.any_level,
                      .strength = row.strength,
                      .overlaps = texts(row.overlaps),
                      .examples = part_of(examples_, row.examples),
                      .says = text_of(row.says),
                      .fix = texts(row.fix),
                      .link = text_of(row.link),
                      .reject = text_of(row.reject),
                      .inspired_by = texts(row.inspired_by)});
  }

  std::vector<std::string_view> texts_;
  std::vector<std::pair<std::string_view, std::string_view>> pairs_;
  std::vector<DiagnosisExample> examples_;
  std::vector<DiagnosisRule> rules_;
  std::vector<DiagnosisCause> causes_;
};

const Tables& tables() {
  // Never destroyed: its views are handed out, and what keeps one may outlive every static.
  static const Tables& kTables = *new Tables;
  return kTables;
}

}  // namespace

std::string_view to_string(Restart restart) {
  switch (restart) {
    case Restart::again:
      return "again";
    case Restart::other_gpus:
      return "other_gpus";
    case Restart::never:
      return "never";
  }
  return "";
}

std::string_view to_string(Role role) {
  switch (role) {
    case Role::root:
      return "root";
    case Role::symptom:
      return "symptom";
    case Role::weak:
      return "weak";
    case Role::context:
      return "context";
    case Role::silence:
      return "silence";
    case Role::ordinary:
      return "ordinary";
    case Role::harmless:
      return "harmless";
  }
  return "unknown";
}

std::span<const DiagnosisRule> diagnosis_rules() { return tables().rules(); }
std::span<const DiagnosisCause> diagnosis_causes() { return tables().causes(); }

const DiagnosisCause* diagnosis_cause(std::string_view id) {
  const auto causes = diagnosis_causes();
  const auto found = std::ranges::find(causes, id, &DiagnosisCause::id);
  return found == causes.end() ? nullptr : &*found;
}

}  // namespace gpuwarden::knowledge
