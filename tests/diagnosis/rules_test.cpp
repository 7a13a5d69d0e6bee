// SPDX-License-Identifier: Apache-2.0
// Every rule against its own examples, and against those of the others.
#include "diagnosis/rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diagnosis/line.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/json.hpp"

namespace gpuwarden::diagnosis {
namespace {

using knowledge::DiagnosisRule;
using knowledge::Role;

/// Whether a fact says the same, sizes within a thousandth.
bool agrees(const std::string& key, const nlohmann::json& read, const nlohmann::json& expected) {
  if (key.ends_with("_bytes") && read.is_number() && expected.is_number()) {
    const double difference = read.get<double>() - expected.get<double>();
    return std::abs(difference) <= 1e-3 * expected.get<double>();
  }
  if (expected.is_array() && read.is_array() && key == "processes") {
    return read.size() == expected.size();
  }
  if (read.is_array() && !expected.is_array()) return read.size() == 1 && read[0] == expected;
  return read == expected;
}

class Example {
 public:
  explicit Example(std::string_view text) {
    for (const std::string_view line : split(text, '\n')) {
      Line normal = normalise(line);
      if (!rank_) rank_ = normal.rank;
      wholes_.push_back(std::move(normal.whole));
      lines_.push_back(std::move(normal.text));
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }
  const std::vector<std::string>& wholes() const { return wholes_; }  ///< with prefixes
  std::optional<std::int64_t> rank() const { return rank_; }          ///< that a prefix named
  Surroundings around(std::size_t at) const {
    Surroundings around;
    for (std::size_t i = at; i-- > 0;) around.before.push_back(lines_[i]);
    for (std::size_t i = at + 1; i < lines_.size(); ++i) around.after.push_back(lines_[i]);
    return around;
  }

 private:
  std::vector<std::string> lines_;
  std::vector<std::string> wholes_;
  std::optional<std::int64_t> rank_;
};

TEST(Rules, EachSeesItsExamplesAndReadsTheirFacts) {
  const Rules& rules = Rules::all();
  for (int index = 0; index < static_cast<int>(rules.size()); ++index) {
    const DiagnosisRule& rule = rules.rule(index);
    for (const auto& given : rule.examples) {
      const Example example(given.text);
      nlohmann::json read;
      bool seen = false;
      for (std::size_t at = 0; at < example.lines().size() && !seen; ++at) {
        // Where something ran, a prefix may tell.
        const std::string& line = rule.role == Role::context ? example.wholes()[at] : example.lines()[at];
        const auto fitting = rules.fitting(line);
        seen =
            rule.role == Role::silence ? rules.fits(index, line) : std::ranges::find(fitting, index) != fitting.end();
        if (seen) read = to_json(rules.facts(index, example.lines()[at], example.around(at)));
      }
      EXPECT_TRUE(seen) << rule.id << " does not see: " << given.text;
      if (example.rank()) read["rank"] = *example.rank();
      const auto expected = nlohmann::json::parse(given.facts);
      for (const auto& [key, value] : expected.items()) {
        if (!seen || !read.contains(key)) {
          EXPECT_FALSE(seen) << rule.id << " does not read " << key << " in: " << given.text;
          continue;
        }
        EXPECT_TRUE(agrees(key, read[key], value)) << rule.id << " " << key << ": " << read[key] << " for " << value;
      }
    }
  }
}

TEST(Rules, EachIsSilentOnTheExamplesOfOtherCauses) {
  const Rules& rules = Rules::all();
  for (int index = 0; index < static_cast<int>(rules.size()); ++index) {
    const DiagnosisRule& rule = rules.rule(index);
    if (rule.cause.empty()) continue;
    for (const auto& given : rule.examples) {
      const Example example(given.text);
      for (const std::string& line : example.lines()) {
        for (const int other_index : rules.fitting(line)) {
          const DiagnosisRule& other = rules.rule(other_index);
          const bool same = other.cause == rule.cause || other.role == Role::context || other.role == Role::ordinary;
          const bool allowed = std::ranges::find(rule.overlaps, other.id) != rule.overlaps.end();
          EXPECT_TRUE(same || allowed) << other.id << " speaks on an example of " << rule.id << ": " << line;
        }
      }
    }
  }
}

/// Lines that set the tags without which a rule is silent, from the examples of the rules that set them.
std::string setting_of(const DiagnosisRule& rule) {
  std::string lines;
  for (const std::string_view tag : rule.when) {
    const auto rules = knowledge::diagnosis_rules();
    const auto sets = std::ranges::find(rules, tag, &DiagnosisRule::context);
    if (sets != rules.end()) lines += std::string(sets->examples.front().text) + '\n';
  }
  return lines;
}

/// Whether another cause may be named before the rule's own: that of a rule which rightly sees the example, too.
bool is_rival(const DiagnosisRule& rule, const std::string& cause) {
  return std::ranges::any_of(rule.overlaps, [&](std::string_view id) {
    const auto rules = knowledge::diagnosis_rules();
    const auto other = std::ranges::find(rules, id, &DiagnosisRule::id);
    return other != rules.end() && other->cause == cause;
  });
}

TEST(Rules, EachRootNamesItsCauseFromItsExamplesAlone) {
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    if (rule.role != Role::root) continue;
    for (const auto& given : rule.examples) {
      const Diagnosis diagnosis = diagnose_text(setting_of(rule) + std::string(given.text), "example.log");
      if (diagnosis.causes.empty()) {
        ADD_FAILURE() << rule.id << ": nothing is found in: " << given.text;
        continue;
      }
      const std::string& first = diagnosis.causes.front().id;
      EXPECT_TRUE(first == rule.cause || is_rival(rule, first)) << rule.id << ": " << first << " in: " << given.text;
    }
  }
}

TEST(Rules, EachHasLiteralsAndSeesItsExamplesByThem) {
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    EXPECT_FALSE(rule.literals.empty()) << rule.id;
    // What only silences is not asked before another rule spoke.
    const std::size_t shortest = rule.role == Role::silence ? 3 : 6;
    for (const std::string_view literal : rule.literals)
      EXPECT_GE(literal.size(), shortest) << rule.id << ": " << literal;
  }
}

TEST(Rules, EachPatternCompiles) {
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    RE2::Options quiet;
    quiet.set_log_errors(false);
    EXPECT_TRUE(RE2(re2::StringPiece(rule.pattern.data(), rule.pattern.size()), quiet).ok()) << rule.id;
    EXPECT_TRUE(RE2(re2::StringPiece(rule.reject.data(), rule.reject.size()), quiet).ok()) << rule.id << ": reject";
    for (const std::string_view extract : rule.extract)
      EXPECT_TRUE(RE2(re2::StringPiece(extract.data(), extract.size()), quiet).ok()) << rule.id << ": " << extract;
  }
}

/// What somebody would paste into a shell.
bool looks_like_command(std::string_view step) {
  const std::string_view first = step.substr(0, step.find(' '));
  const bool is_word = !first.empty() && std::ranges::all_of(first, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
  const std::size_t equals = first.find('=');
  const bool is_assignment =
      equals != std::string_view::npos &&
      first.substr(0, equals).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string_view::npos;
  return is_word || is_assignment;
}

TEST(Causes, CommandsCanBePastedAsTheyStand) {
  for (const auto& cause : knowledge::diagnosis_causes()) {
    for (const auto steps : {cause.fix, cause.confirm}) {
      for (const std::string_view step : steps) {
        if (!looks_like_command(step)) continue;
        EXPECT_EQ(step.find('<'), std::string_view::npos) << cause.id << ": " << step;
        EXPECT_EQ(step.find(" ("), std::string_view::npos) << cause.id << ": " << step;
        EXPECT_EQ(std::string_view(".,;:!?").find(step.back()), std::string_view::npos) << cause.id << ": " << step;
      }
    }
  }
}

TEST(Causes, TitlesBeginLargeAndEndWithoutAStop) {
  for (const auto& cause : knowledge::diagnosis_causes()) {
    const char first = cause.title.front();
    EXPECT_TRUE((first >= 'A' && first <= 'Z') || cause.title.starts_with("/dev/shm")) << cause.id;
    EXPECT_NE(cause.title.back(), '.') << cause.id;
  }
}

TEST(Causes, EachIsNamedByARule) {
  for (const auto& cause : knowledge::diagnosis_causes()) {
    const bool named = std::ranges::any_of(knowledge::diagnosis_rules(),
                                           [&](const DiagnosisRule& rule) { return rule.cause == cause.id; });
    const bool from_numbers = cause.id == "oom_leak" || cause.id == "oom_other_process";
    EXPECT_TRUE(named || from_numbers) << cause.id;
  }
}

TEST(Rules, AreNotWokenByAPieceOfALongerFormThatOrdinaryLinesHave) {
  // "dataloader worker was killed", "expected sm_90": the longer form tells more than its commonest word.
  for (const auto& rule : knowledge::diagnosis_rules()) {
    for (const std::string_view literal : rule.literals) {
      for (const std::string_view word : {"loader", "expect", "failed", " build", " match"})
        EXPECT_NE(literal, word) << rule.id;
    }
  }
}

}  // namespace
}  // namespace gpuwarden::diagnosis
