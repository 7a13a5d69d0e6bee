// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/rules.hpp"

#include <algorithm>
#include <cctype>

#include "diagnosis/values.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// Shorter literals stand in too many lines to tell anything.
constexpr int kShortestLiteral = 3;

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
    std::optional<std::int64_t> pid;
    std::optional<std::int64_t> bytes;
    for (const auto& [group, name] : names) {
      const re2::StringPiece& value = values[static_cast<std::size_t>(group)];
      if (value.data() == nullptr) continue;
      const std::string_view held(value.data(), value.size());
      if (name == "process_bytes") bytes = size_in_log(held);
      if (name == "pid") pid = parse_integer(held);
    }
    if (pid && bytes) add_process(facts, *pid, *bytes);
    for (const auto& [group, name] : names) {
      const re2::StringPiece& value = values[static_cast<std::size_t>(group)];
      const bool of_process = bytes && (name == "process_bytes" || name == "pid");
      if (value.data() != nullptr && !of_process) add_fact(facts, key_of(name), {value.data(), value.size()});
    }
    const auto end = static_cast<std::size_t>(values[0].data() - text.data()) + values[0].size();
    from = values[0].empty() ? end + 1 : end;
  }
}

}  // namespace

Rules::Rules(std::span<const knowledge::DiagnosisRule> rules) : rules_(rules), filter_(kShortestLiteral) {
  for (const auto& rule : rules_) {
    int ignored = 0;
    filter_.Add(re2::StringPiece(rule.pattern.data(), rule.pattern.size()), options(), &ignored);
    auto& extract = extract_.emplace_back();
    for (const std::string_view pattern : rule.extract)
      extract.push_back(std::make_unique<RE2>(re2::StringPiece(pattern.data(), pattern.size()), options()));
  }
  std::vector<std::string> literals;
  filter_.Compile(&literals);
  scanner_ = std::make_unique<LiteralScanner>(std::move(literals));
}

const Rules& Rules::all() {
  static const Rules rules(knowledge::diagnosis_rules());
  return rules;
}

std::vector<int> Rules::fitting(const std::string& line) const {
  std::vector<int> literals;
  scanner_->scan(line, [&](std::size_t, std::uint32_t literal) { literals.push_back(static_cast<int>(literal)); });
  std::ranges::sort(literals);
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  std::vector<int> indices;
  filter_.AllMatches(line, literals, &indices);
  std::ranges::sort(indices);
  return indices;
}

Facts Rules::facts(int index, const std::string& line, const Surroundings& around) const {
  const knowledge::DiagnosisRule& rule = this->rule(index);
  const RE2& main = filter_.GetRE2(index);
  Facts facts;
  for (const auto& [key, json] : rule.set) add_json_fact(facts, std::string(key), json);
  add_groups(main, line, facts);
  std::string joined = line;
  std::string glued = line;  // a terminal's wrapped line went on without a blank
  for (std::size_t i = 0; i < around.after.size() && i < static_cast<std::size_t>(rule.lines); ++i) {
    if (RE2::PartialMatch(around.after[i], main)) break;  // the next message of its kind
    joined += ' ' + around.after[i];
    glued += around.after[i];
  }
  std::string behind = line;
  for (std::size_t i = 0; i < around.before.size() && i < static_cast<std::size_t>(rule.before); ++i)
    behind.insert(0, around.before[i] + ' ');
  const auto& patterns = extract_[static_cast<std::size_t>(index)];
  for (const std::string* text : {&joined, &glued, &behind}) {
    if (text != &joined && *text == joined) continue;
    for (const auto& pattern : patterns) add_groups(*pattern, *text, facts);
  }
  for (const auto& pattern : everywhere()) add_groups(*pattern, line, facts);
  constexpr std::size_t kNear = 3;
  for (std::size_t i = 0; i < std::min(kNear, around.after.size()); ++i)
    add_groups(current_device(), around.after[i], facts);
  return facts;
}

std::vector<int> Rules::without_literal() const {
  std::vector<int> indices;
  filter_.AllPotentials({}, &indices);
  std::ranges::sort(indices);
  return indices;
}

}  // namespace gpuwarden::diagnosis
