// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/lookup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::diagnosis {
namespace {

using knowledge::DiagnosisCause;
using knowledge::DiagnosisRule;
using knowledge::Role;

/// More causes than anybody reads.
constexpr std::size_t kMostFound = 8;

void add(Lookup& lookup, std::string_view cause) {
  const DiagnosisCause* row = knowledge::diagnosis_cause(cause);
  if (row != nullptr && std::ranges::find(lookup.causes, row) == lookup.causes.end()) lookup.causes.push_back(row);
}

/// "OOM fragmentation", "oom-fragmentation" and "oom_fragmentation" are one name.
std::string name_of(std::string_view text) {
  std::string name = to_lower(trim(text));
  std::ranges::replace_if(name, [](char c) { return c == '-' || c == ' '; }, '_');
  return name;
}

/// What people call several causes, the likeliest meant first. Memory of the GPU comes before that of the host.
struct EverydayName {
  std::string_view name;
  std::string_view causes;
};
constexpr auto kEverydayNames = std::to_array<EverydayName>({
    {"oom", "oom_capacity oom_host oom_fragmentation oom_other_process oom_leak slurm_oom_kill"},
    {"out_of_memory", "oom_capacity oom_host oom_fragmentation oom_other_process oom_leak slurm_oom_kill"},
});

Lookup by_name(std::string_view what) {
  Lookup lookup;
  const std::string name = name_of(what);
  const auto* const everyday = std::ranges::find(kEverydayNames, name, &EverydayName::name);
  if (everyday != kEverydayNames.end()) {
    for (const auto cause : split_words(everyday->causes)) add(lookup, cause);
    return lookup;
  }
  add(lookup, name);
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    if (name_of(rule.id) != name || rule.cause.empty()) continue;
    lookup.rules.push_back(&rule);
    add(lookup, rule.cause);
  }
  return lookup;
}

/// The causes that the text names as a log. What its numbers decide comes before what its words alone say.
Lookup by_line(std::string_view what) {
  Lookup lookup;
  const Reading reading = diagnosis::read_log(what, "");
  for (const Cause& cause : diagnosis::diagnose(reading).causes) add(lookup, cause.id);
  for (const Role role : {Role::root, Role::symptom, Role::weak}) {
    for (const Event& event : reading.events) {
      if (event.rule->role != role || event.rule->cause.empty()) continue;
      lookup.rules.push_back(event.rule);
      add(lookup, event.rule->cause);
    }
  }
  return lookup;
}

/// 79 of "xid 79", "Xid=79", "xid:79", "xid79"; with no word before it, of "79".
std::optional<int> code_behind(std::string_view what, std::string_view word) {
  const std::string lower = to_lower(trim(what));
  if (!lower.starts_with(word)) return std::nullopt;
  std::string_view rest = std::string_view(lower).substr(word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" =:#"), rest.size()));
  const auto number = parse_integer(rest);
  constexpr int kLargest = 99'999;
  return number && *number >= 0 && *number <= kLargest ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

/// A kernel message as the driver writes it: the rules judge it as they judge a log's.
Lookup by_message(const std::string& line) {
  Lookup lookup = by_line(line);
  lookup.rules.clear();  // the line is ours, not the user's
  return lookup;
}

bool is_in_use(int xid, const knowledge::Knowledge& knowledge) {
  const auto* row = knowledge.xid(xid);
  // NVIDIA's word in its catalogue, and what the table says of numbers that only older GPUs had.
  return row != nullptr && row->description != "Unused" && !row->description.starts_with("Not used on ");
}

/// An Xid that nobody knows, or that no driver reports, has no cause.
Lookup by_xid(int xid, const knowledge::Knowledge& knowledge) {
  Lookup lookup;
  if (is_in_use(xid, knowledge))
    lookup = by_message(fmt::format("NVRM: Xid (PCI:0000:01:00): {}, pid=4711, name=python", xid));
  lookup.xid = xid;
  return lookup;
}

/// Whether a rule's messages carry this error code of CUDA: by what it sets, or as one of its examples tells.
bool has_code(const DiagnosisRule& rule, const std::string& code) {
  const auto sets = [&](const auto& fact) { return fact.first == "cuda_code" && fact.second == code; };
  const auto tells = [&](const auto& example) {
    const auto facts = nlohmann::json::parse(example.facts, nullptr, false);
    return facts.is_object() && facts.contains("cuda_code") && facts["cuda_code"].dump() == code;
  };
  return std::ranges::any_of(rule.set, sets) || std::ranges::any_of(rule.examples, tells);
}

void add_cuda_code(Lookup& lookup, int number) {
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    if (rule.cause.empty() || !has_code(rule, std::to_string(number))) continue;
    lookup.cuda_code = number;
    add(lookup, rule.cause);
  }
}

/// Xids, SXids and error codes of CUDA. A bare number may be each of them.
std::optional<Lookup> by_number(std::string_view what, const knowledge::Knowledge& knowledge) {
  if (const auto xid = code_behind(what, "xid")) return by_xid(*xid, knowledge);
  if (const auto sxid = code_behind(what, "sxid"))
    return by_message(fmt::format("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {}, Link 32", *sxid));
  const auto bare = code_behind(what, "");
  if (!bare) return std::nullopt;
  Lookup lookup;
  if (is_in_use(*bare, knowledge)) lookup = by_xid(*bare, knowledge);
  add_cuda_code(lookup, *bare);
  return lookup;
}

/// Lower case, each run of digits a 0: "compute_89" is to find "compute_90".
std::string without_numbers(std::string_view text) {
  std::string result;
  for (const char c : to_lower(text)) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit)
      result += c;
    else if (result.empty() || result.back() != '0')
      result += '0';
  }
  return result;
}

/// All that is written about a cause, by how much a word in it says.
struct Page {
  const DiagnosisCause* cause;
  std::string name;    ///< id, title, area
  std::string advice;  ///< summaries and steps
  std::string lines;   ///< patterns and examples
  std::string plain;   ///< the lines without numbers
};

void append(std::string& text, std::string_view more) { text.append(to_lower(more)).append("\n"); }

std::vector<Page> all_pages() {
  std::vector<Page> pages;
  std::map<std::string_view, std::size_t> places;
  for (const DiagnosisCause& cause : knowledge::diagnosis_causes()) {
    places[cause.id] = pages.size();
    Page page{&cause, to_lower(fmt::format("{} {} {}", cause.id, cause.title, cause.area)), "", "", ""};
    for (const auto texts : {cause.summary, cause.fix, cause.confirm}) {
      for (const auto text : texts) append(page.advice, knowledge::marked_step(text).text);
    }
    pages.push_back(std::move(page));
  }
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    const auto place = places.find(rule.cause);
    if (place == places.end()) continue;
    Page& page = pages[place->second];
    append(page.lines, rule.id);
    append(page.lines, rule.pattern);
    for (const auto& example : rule.examples) append(page.lines, example.text);
  }
  for (Page& page : pages) page.plain = without_numbers(page.lines);
  return pages;
}

/// "glibcxx_" of "glibcxx_3.4.32": what names of one kind share.
std::string_view stem_of(std::string_view word) {
  const std::size_t end = word.find_first_of("0123456789");
  constexpr std::size_t kShortest = 4;
  return end == std::string_view::npos || end < kShortest ? std::string_view{} : word.substr(0, end);
}

/// How much one word says for a page: in a name most, in what is left of a line without its numbers least. A name out
/// of code that stands in advice and in messages says more than one that merely some advice mentions.
double weight(const Page& page, const std::string& word) {
  constexpr double kInName = 4;
  constexpr double kInAdvice = 3;
  constexpr double kInLines = 2;
  constexpr double kButForNumbers = 1;
  const std::string plain = without_numbers(word);
  const bool alike = plain != word && plain.size() > 2 && page.plain.contains(plain);
  if (page.name.contains(word)) return kInName;
  if (page.advice.contains(word)) return kInAdvice + (alike ? kInLines : 0);
  if (page.lines.contains(word)) return kInLines;
  const std::string_view stem = stem_of(word);
  return alike || (!stem.empty() && page.lines.contains(stem)) ? kButForNumbers : 0;
}

/// Whether a word stands in a text for itself: '_' and '.' part words, too.
bool has_word(std::string_view text, std::string_view word) {
  const auto parts = [&](std::size_t at) {
    return at >= text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0;
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || parts(at - 1)) && parts(at + word.size())) return true;
  }
  return false;
}

/// One word of a few letters is a part of many others: it must be in a cause's name, or be typed as an abbreviation
/// ("BAR") that stands in what is written about it.
bool says_too_little(std::string_view what, const std::vector<std::string>& words, const Page& page) {
  constexpr std::size_t kFewLetters = 4;
  if (words.size() != 1 || words[0].size() >= kFewLetters) return false;
  if (words[0].find_first_of("0123456789") != std::string::npos) return false;  // "fp8" is no part of a word
  const bool abbreviation = std::ranges::none_of(what, [](unsigned char c) { return std::islower(c) != 0; });
  return !has_word(page.name, words[0]) &&
         !(abbreviation && (has_word(page.advice, words[0]) || has_word(page.lines, words[0])));
}

std::vector<std::string> words_of(std::string_view what) {
  std::string text = to_lower(what);
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x80 && std::isalnum(c) == 0 && c != '_' && c != '.' && c != '-'; }, ' ');
  std::vector<std::string> words;
  for (const auto word : split_words(text)) {
    // Numbers stand in lines of all kinds.
    if (word.size() > 1 && !parse_number(word)) words.emplace_back(word);
  }
  return words;
}

/// A search: a word that few pages have says more than one that many have; half of the words must be found.
Lookup by_words(std::string_view what) {
  const std::vector<Page> pages = all_pages();
  std::vector<std::string> words = words_of(what);
  // Words that stand together mean more: "bus error" is no error of the bus.
  if (words.size() > 1) words.push_back(join(words, " "));
  std::vector<double> scores(pages.size());
  std::vector<std::size_t> hits(pages.size());
  for (const std::string& word : words) {
    std::vector<double> own;
    for (const Page& page : pages) own.push_back(weight(page, word));
    const auto having = static_cast<double>(pages.size()) - static_cast<double>(std::ranges::count(own, 0.0));
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (own[i] == 0) continue;
      scores[i] += own[i] / having;
      ++hits[i];
    }
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (hits[i] * 2 < words.size() || says_too_little(what, words, pages[i])) scores[i] = 0;
  }
  Lookup lookup;
  const double best = scores.empty() ? 0 : *std::ranges::max_element(scores);
  while (lookup.causes.size() < kMostFound) {
    const auto next = std::ranges::max_element(scores);
    if (next == scores.end() || *next <= 0 || *next * 3 < best) break;
    lookup.causes.push_back(pages[static_cast<std::size_t>(next - scores.begin())].cause);
    *next = 0;
  }
  return lookup;
}

std::string nearest_to(std::string_view what) {
  std::vector<std::string> names;
  for (const DiagnosisCause& cause : knowledge::diagnosis_causes()) names.emplace_back(cause.id);
  return closest_match(name_of(what), names);
}

}  // namespace

Lookup look_up(std::string_view what, const knowledge::Knowledge& knowledge) {
  if (auto lookup = by_number(what, knowledge)) return std::move(*lookup);
  for (const auto find : {by_name, by_line}) {
    Lookup lookup = find(what);
    if (!lookup.causes.empty()) return lookup;
  }
  Lookup lookup = by_words(what);
  if (lookup.causes.empty()) lookup.nearest = nearest_to(what);
  return lookup;
}

}  // namespace gpuwarden::diagnosis
