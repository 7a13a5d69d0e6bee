// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/rules.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "diagnosis/values.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::diagnosis {
namespace {

RE2::Options options() {
  RE2::Options chosen;
  chosen.set_log_errors(false);
  return chosen;
}

/// The key of a named group: "ranks2" is one more "ranks".
std::string key_of(const std::string& group) {
  std::string key = group;
  while (!key.empty() && std::isdigit(static_cast<unsigned char>(key.back())) != 0) key.pop_back();
  return key;
}

std::vector<std::unique_ptr<RE2>> compiled(std::initializer_list<const char*> patterns) {
  std::vector<std::unique_ptr<RE2>> all;
  for (const char* pattern : patterns) all.push_back(std::make_unique<RE2>(pattern, options()));
  return all;
}

/// What lines of all kinds write alike: read where a rule has not read it otherwise.
const std::vector<std::unique_ptr<RE2>>& everywhere() {
  static const auto patterns = compiled({
      R"((?i)\bgpu(?:_id|_index)? ?[=:#]? ?(?P<gpu>\d{1,3})\b)",
      R"((?i)\b(?:cuda:|device=|device )(?P<gpu>\d{1,3})\b)",
      R"(\((?P<cuda_code>\d{1,3}) vs\. 0\))",
      R"((?i)\bcuda[ _]?(?:runtime |driver )?(?:error|failure)(?: code)?(?: ?[:=(]| ) ?(?P<cuda_code>\d{1,3})\b)",
      R"((?i)\berror(?: code:? | ?= ?|_code=)(?P<cuda_code>\d{1,3})\b)",
      R"((?:PCI:|GPU |device )(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?))",
      R"((?i)\bpid[ =:]{1,2}(?P<pid>\d+)\b)",
  });
  return patterns;
}

/// What llama.cpp and others write into the lines after an error.
const RE2& current_device() {
  static const RE2 pattern(R"(\bcurrent device: (?P<gpu>\d{1,3})\b)", options());
  return pattern;
}

using Groups = std::map<std::string, std::string>;

/// Adds what the named groups of one match hold. A pid beside what it holds is a process.
void add_groups_of_match(const Groups& groups, Facts& facts) {
  const auto held = groups.find("process_bytes");
  const auto pid = groups.find("pid");
  const bool of_process = held != groups.end() && pid != groups.end();
  if (of_process) {
    const auto bytes = size_in_log(held->second);
    const auto number = parse_integer(pid->second);
    if (bytes && number) add_process(facts, *number, *bytes);
  }
  for (const auto& [name, value] : groups) {
    if (!of_process || (name != "process_bytes" && name != "pid")) add_fact(facts, key_of(name), value);
  }
}

/// "3.22" of "(3.22/4.0 GiB)" is in the unit that follows: with it. Other values as they are.
std::string with_unit(const std::string& name, std::string_view value, std::string_view behind) {
  static const RE2 bare(R"(^[\d.,_]+$)");
  static const RE2 unit_follows(R"(^ ?(?:/|of|out of|to|-) ?[\d.,]+ ?([KMGT]i?B|[kmgt]b|bytes)\b)");
  std::string unit;
  if (name.find("_bytes") == std::string::npos || !RE2::FullMatch(re2::StringPiece(value.data(), value.size()), bare))
    return std::string(value);
  if (!RE2::PartialMatch(re2::StringPiece(behind.data(), behind.size()), unit_follows, &unit))
    return std::string(value);
  return std::string(value) + " " + unit;
}

/// Adds what the named groups of every match in `text` hold.
void add_groups(const RE2& pattern, const std::string& text, Facts& facts) {
  const auto& names = pattern.CapturingGroupNames();
  if (names.empty()) return;
  const int count = pattern.NumberOfCapturingGroups() + 1;
  std::vector<re2::StringPiece> values(static_cast<std::size_t>(count));
  constexpr int kMostMatches = 32;
  std::size_t from = 0;
  for (int i = 0; i < kMostMatches && from <= text.size(); ++i) {
    if (!pattern.Match(text, from, text.size(), RE2::UNANCHORED, values.data(), count)) return;
    Groups groups;
    for (const auto& [group, name] : names) {
      const re2::StringPiece& value = values[static_cast<std::size_t>(group)];
      if (value.data() == nullptr) continue;
      const auto behind = static_cast<std::size_t>(value.data() - text.data()) + value.size();
      groups.emplace(name, with_unit(name, {value.data(), value.size()}, std::string_view(text).substr(behind)));
    }
    add_groups_of_match(groups, facts);
    const auto end = static_cast<std::size_t>(values[0].data() - text.data()) + values[0].size();
    from = values[0].empty() ? end + 1 : end;
  }
}

}  // namespace

struct Rules::Compiled {
  std::once_flag once;
  std::unique_ptr<RE2> pattern;
  std::vector<std::unique_ptr<RE2>> extract;
  std::unique_ptr<RE2> reject;
};

namespace {

using Wanted = std::vector<std::pair<std::string_view, int>>;

std::vector<std::string> each_once(const Wanted& wanted) {
  std::vector<std::string> literals;
  for (const auto& [literal, rule] : wanted) {
    if (literals.empty() || literals.back() != literal) literals.emplace_back(literal);
  }
  return literals;
}

/// Silences only its own line, so that it is asked only where another rule spoke.
bool only_silences(const knowledge::DiagnosisRule& rule) {
  return rule.role == knowledge::Role::silence && rule.before == 0;
}

/// What the rules that only silence, or the others, want; sorted by literal.
Wanted wanted_by(std::span<const knowledge::DiagnosisRule> rules, bool silence) {
  Wanted wanted;
  for (std::size_t index = 0; index < rules.size(); ++index) {
    if (only_silences(rules[index]) != silence) continue;
    for (const std::string_view literal : rules[index].literals) wanted.emplace_back(literal, static_cast<int>(index));
  }
  std::ranges::sort(wanted);
  return wanted;
}

}  // namespace

Rules::Index::Index(const std::vector<std::pair<std::string_view, int>>& wanted) : scanner(each_once(wanted)) {
  std::string_view last;
  for (const auto& [literal, rule] : wanted) {
    if (rules.empty() || literal != last) rules.emplace_back();
    rules.back().push_back(rule);
    last = literal;
  }
}

Rules::Rules(std::span<const knowledge::DiagnosisRule> rules)
    : rules_(rules),
      speaking_(std::make_unique<Index>(wanted_by(rules, false))),
      silencing_(std::make_unique<Index>(wanted_by(rules, true))),
      compiled_(std::make_unique<Compiled[]>(rules.size())) {}

const Rules::Compiled& Rules::compiled(int index) const {
  Compiled& entry = compiled_[static_cast<std::size_t>(index)];
  std::call_once(entry.once, [&] {
    const knowledge::DiagnosisRule& rule = this->rule(index);
    entry.pattern = std::make_unique<RE2>(re2::StringPiece(rule.pattern.data(), rule.pattern.size()), options());
    for (const std::string_view pattern : rule.extract)
      entry.extract.push_back(std::make_unique<RE2>(re2::StringPiece(pattern.data(), pattern.size()), options()));
    if (!rule.reject.empty())
      entry.reject = std::make_unique<RE2>(re2::StringPiece(rule.reject.data(), rule.reject.size()), options());
  });
  return entry;
}

const Rules& Rules::all() {
  static const Rules rules(knowledge::diagnosis_rules());
  return rules;
}

bool Rules::fits(int index, const std::string& line) const { return RE2::PartialMatch(line, *compiled(index).pattern); }

bool Rules::rejects(int index, const std::string& line, const Surroundings& around) const {
  if (rule(index).reject.empty()) return false;
  const RE2& pattern = *compiled(index).reject;
  if (RE2::PartialMatch(line, pattern)) return true;
  const std::size_t most = std::min(around.after.size(), static_cast<std::size_t>(rule(index).lines));
  return std::any_of(around.after.begin(), around.after.begin() + static_cast<std::ptrdiff_t>(most),
                     [&](const std::string& after) { return RE2::PartialMatch(after, pattern); });
}

std::vector<int> Rules::fitting(const std::string& line) const {
  std::vector<int> indices;
  const auto try_all = [&](const Index& index) {
    std::vector<std::uint32_t> literals;
    index.scanner.scan(line, [&](std::size_t, std::uint32_t literal) {
      if (literals.empty() || literals.back() != literal) literals.push_back(literal);
    });
    std::ranges::sort(literals);
    literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
    std::vector<int> possible;
    for (const std::uint32_t literal : literals)
      possible.insert(possible.end(), index.rules[literal].begin(), index.rules[literal].end());
    std::ranges::sort(possible);
    possible.erase(std::unique(possible.begin(), possible.end()), possible.end());
    std::erase_if(possible, [&](int rule) { return !fits(rule, line); });
    indices.insert(indices.end(), possible.begin(), possible.end());
  };
  try_all(*speaking_);
  if (!indices.empty()) try_all(*silencing_);
  std::ranges::sort(indices);
  return indices;
}

namespace {

/// Whether a line begins within a sentence: a terminal broke it.
bool goes_on(const std::string& line) {
  const char first = line.empty() ? ' ' : line.front();
  return (first >= 'a' && first <= 'z') || std::string_view("=,;:).").contains(first);
}

/// Of a long line what stands around the match: nothing further away belongs to the message.
std::string near_match(const RE2& pattern, const std::string& line) {
  constexpr std::size_t kBefore = 512;
  constexpr std::size_t kBehind = 3072;
  if (line.size() <= kBefore + kBehind) return line;
  re2::StringPiece match;
  if (!pattern.Match(line, 0, line.size(), RE2::UNANCHORED, &match, 1)) return line.substr(0, kBehind);
  const auto at = static_cast<std::size_t>(match.data() - line.data());
  const std::size_t begin = at > kBefore ? at - kBefore : 0;
  return line.substr(begin, at - begin + kBehind);
}

}  // namespace

Facts Rules::facts(int index, const std::string& whole, const Surroundings& around) const {
  const knowledge::DiagnosisRule& rule = this->rule(index);
  const RE2& main = *compiled(index).pattern;
  const std::string line = near_match(main, whole);
  Facts facts;
  add_groups(main, line, facts);
  // A pattern that reads something itself begins the next message of its kind.
  const bool begins_anew = !main.NamedCapturingGroups().empty();
  std::string joined = line;
  std::string glued = line;  // a terminal's broken line went on without a blank
  for (std::size_t i = 0; i < around.after.size() && i < static_cast<std::size_t>(rule.lines); ++i) {
    if (begins_anew && RE2::PartialMatch(around.after[i], main) && !goes_on(around.after[i])) break;
    joined += ' ' + around.after[i];
    glued += around.after[i];
  }
  std::string behind = line;
  for (std::size_t i = 0; i < around.before.size() && i < static_cast<std::size_t>(rule.before); ++i)
    behind.insert(0, around.before[i] + ' ');
  const auto& patterns = compiled(index).extract;
  for (const std::string* text : {&joined, &glued, &behind}) {
    if (text != &joined && *text == joined) continue;
    for (const auto& pattern : patterns) add_groups(*pattern, *text, facts);
  }
  for (const auto& pattern : everywhere()) add_groups(*pattern, line, facts);
  for (std::size_t i = 0; i < std::min(kNearLines, around.after.size()); ++i)
    add_groups(current_device(), around.after[i], facts);
  // What the text itself says comes first: error numbers have changed over the years.
  for (const auto& [key, json] : rule.set) add_json_fact(facts, std::string(key), json);
  return facts;
}

}  // namespace gpuwarden::diagnosis
