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
  // Bytes: half as long to compile, and what is no UTF-8 is text too.
  chosen.set_encoding(RE2::Options::EncodingLatin1);
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

struct Rules::Compiled {
  std::once_flag once;
  std::unique_ptr<RE2> pattern;
  std::vector<std::unique_ptr<RE2>> extract;
};

Rules::Rules(std::span<const knowledge::DiagnosisRule> rules)
    : rules_(rules), compiled_(std::make_unique<Compiled[]>(rules.size())) {
  std::map<std::string_view, std::size_t> places;
  std::vector<std::string> literals;
  for (std::size_t index = 0; index < rules_.size(); ++index) {
    for (const std::string_view literal : rules_[index].literals) {
      const auto [place, is_new] = places.emplace(literal, literals.size());
      if (is_new) {
        literals.emplace_back(literal);
        of_literal_.emplace_back();
      }
      of_literal_[place->second].push_back(static_cast<int>(index));
    }
  }
  scanner_ = std::make_unique<LiteralScanner>(std::move(literals));
}

const Rules::Compiled& Rules::compiled(int index) const {
  Compiled& entry = compiled_[static_cast<std::size_t>(index)];
  std::call_once(entry.once, [&] {
    const knowledge::DiagnosisRule& rule = this->rule(index);
    entry.pattern = std::make_unique<RE2>(re2::StringPiece(rule.pattern.data(), rule.pattern.size()), options());
    for (const std::string_view pattern : rule.extract)
      entry.extract.push_back(std::make_unique<RE2>(re2::StringPiece(pattern.data(), pattern.size()), options()));
  });
  return entry;
}

const Rules& Rules::all() {
  static const Rules rules(knowledge::diagnosis_rules());
  return rules;
}

std::vector<int> Rules::fitting(const std::string& line) const {
  std::vector<int> indices;
  scanner_->scan(line, [&](std::size_t, std::uint32_t literal) {
    indices.insert(indices.end(), of_literal_[literal].begin(), of_literal_[literal].end());
  });
  std::ranges::sort(indices);
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  std::erase_if(indices, [&](int index) { return !RE2::PartialMatch(line, *compiled(index).pattern); });
  return indices;
}

Facts Rules::facts(int index, const std::string& line, const Surroundings& around) const {
  const knowledge::DiagnosisRule& rule = this->rule(index);
  const RE2& main = *compiled(index).pattern;
  Facts facts;
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
  const auto& patterns = compiled(index).extract;
  for (const std::string* text : {&joined, &glued, &behind}) {
    if (text != &joined && *text == joined) continue;
    for (const auto& pattern : patterns) add_groups(*pattern, *text, facts);
  }
  for (const auto& pattern : everywhere()) add_groups(*pattern, line, facts);
  constexpr std::size_t kNear = 3;
  for (std::size_t i = 0; i < std::min(kNear, around.after.size()); ++i)
    add_groups(current_device(), around.after[i], facts);
  // What the text itself says comes first: error numbers have changed over the years.
  for (const auto& [key, json] : rule.set) add_json_fact(facts, std::string(key), json);
  return facts;
}

}  // namespace gpuwarden::diagnosis
