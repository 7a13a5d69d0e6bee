// SPDX-License-Identifier: Apache-2.0
// Build-time tool: checks knowledge/diagnosis/*.yaml and writes its rules and causes as constexpr tables without
// pointers, which a program would have to relocate at every start (src/knowledge/diagnosis.cpp has the rows' types).
//   generate_diagnosis OUTPUT.inc INPUT.yaml...
// An entry that is wrong (an unknown key, a cause or fragment that does not exist, no source) stops the build with file
// and line.
#include <re2/filtered_re2.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "commonness.hpp"
#include "fragments.hpp"

namespace {

using gpuwarden::knowledge::commonness;
using gpuwarden::knowledge::Fragments;

/// An entry, and the file it stands in.
struct Entry {
  std::string file;
  YAML::Node node;
};

[[noreturn]] void stop(const Entry& entry, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", entry.file.c_str(), entry.node.Mark().line + 1, what.c_str());
  std::exit(1);
}

std::string literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + "\"";
}

void check_keys(const Entry& entry, const std::set<std::string>& known) {
  for (const auto& pair : entry.node) {
    const auto key = pair.first.as<std::string>();
    if (!known.contains(key)) stop(entry, "unknown key '" + key + "'");
  }
}

std::string text(const Entry& entry, const char* key) {
  const YAML::Node value = entry.node[key];
  if (!value || value.IsNull()) return "";
  if (!value.IsScalar()) stop(entry, std::string(key) + " is not a text");
  return value.as<std::string>();
}

std::string needed(const Entry& entry, const char* key) {
  const std::string value = text(entry, key);
  if (value.empty()) stop(entry, std::string(key) + " is missing");
  return value;
}

std::vector<std::string> texts(const Entry& entry, const char* key) {
  const YAML::Node value = entry.node[key];
  if (!value || value.IsNull()) return {};
  if (!value.IsSequence()) stop(entry, std::string(key) + " is not a list");
  std::vector<std::string> result;
  for (const auto& item : value) {
    if (!item.IsScalar()) stop(entry, std::string(key) + " has an item that is not a text");
    result.push_back(item.as<std::string>());
  }
  return result;
}

/// A pattern with what its {names} stand for.
std::string resolved(const Entry& entry, const std::string& pattern, const Fragments& fragments) {
  const auto result = gpuwarden::knowledge::resolve(pattern, fragments);
  if (!result.unknown.empty()) stop(entry, "there is no fragment '" + result.unknown + "'");
  return result.pattern;
}

/// A YAML value as JSON: plain whole numbers are numbers, everything else is text.
nlohmann::json json_of(const YAML::Node& node) {
  if (node.IsSequence()) {
    auto array = nlohmann::json::array();
    for (const auto& item : node) array.push_back(json_of(item));
    return array;
  }
  if (node.IsMap()) {
    auto object = nlohmann::json::object();
    for (const auto& pair : node) object[pair.first.as<std::string>()] = json_of(pair.second);
    return object;
  }
  const bool quoted = node.Tag() == "!";
  long long number = 0;
  if (!quoted && YAML::convert<long long>::decode(node, number)) return number;
  return node.as<std::string>();
}

/// Collects the tables: texts by where they lie in one long text, lists by where they begin and how long they are.
class Writer {
 public:
  /// The initializer of a Piece.
  std::string piece(const std::string& text) {
    const auto [known, added] = places_.try_emplace(text, size_);
    if (added) {
      blob_ += literal(text) + "\n";
      size_ += text.size();
    }
    return "{" + std::to_string(known->second) + "," + std::to_string(text.size()) + "}";
  }

  /// The initializer of a Range of kTexts.
  std::string list(const std::vector<std::string>& items) {
    for (const std::string& item : items) texts_ += piece(item) + ",";
    return range(text_count_, items.size());
  }

  std::string pairs(const std::map<std::string, std::string>& items) {
    for (const auto& [key, value] : items) pairs_ += "{" + piece(key) + "," + piece(value) + "},";
    return range(pair_count_, items.size());
  }

  std::string examples(const Entry& entry) {
    const YAML::Node value = entry.node["examples"];
    if (!value || !value.IsSequence() || value.size() == 0) stop(entry, "a rule needs examples");
    for (const auto& item : value) {
      const Entry example{entry.file, item};
      check_keys(example, {"text", "facts", "source"});
      const auto facts = item["facts"] ? json_of(item["facts"]) : nlohmann::json::object();
      examples_ += "{" + piece(needed(example, "text")) + "," + piece(facts.dump()) + "," +
                   piece(needed(example, "source")) + "},";
    }
    return range(example_count_, value.size());
  }

  void write(std::ostream& out, const std::string& causes, const std::string& rules) const {
    out << "constexpr char kBlob[] =\n" << blob_ << ";\n";
    out << "static_assert(sizeof kBlob - 1 == " << size_ << ", \"the pieces lie where they were counted\");\n";
    out << "constexpr Piece kTexts[] = {" << texts_ << "};\n";
    out << "constexpr PairRow kPairs[] = {" << pairs_ << "};\n";
    out << "constexpr ExampleRow kExamples[] = {" << examples_ << "};\n";
    out << "constexpr CauseRow kCauses[] = {\n" << causes << "};\n";
    out << "constexpr RuleRow kRules[] = {\n" << rules << "};\n";
  }

 private:
  static std::string range(std::size_t& at, std::size_t count) {
    const std::string result = "{" + std::to_string(at) + "," + std::to_string(count) + "}";
    at += count;
    return result;
  }

  std::map<std::string, std::size_t> places_;
  std::string blob_;
  std::size_t size_ = 0;
  std::string texts_;
  std::string pairs_;
  std::string examples_;
  std::size_t text_count_ = 0;
  std::size_t pair_count_ = 0;
  std::size_t example_count_ = 0;
};

int small_number(const Entry& entry, const char* key, int most) {
  const std::string value = text(entry, key);
  if (value.empty()) return 0;
  if (value.find_first_not_of("0123456789") != std::string::npos || value.size() > 3 || std::atoi(value.c_str()) > most)
    stop(entry, std::string(key) + ": '" + value + "' is not a number up to " + std::to_string(most));
  return std::atoi(value.c_str());
}

double strength(const Entry& entry) {
  const std::string value = text(entry, "strength");
  if (value.empty()) return 0.9;
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (*end != '\0' || number < 0 || number > 1) stop(entry, "strength: '" + value + "' is not between 0 and 1");
  return number;
}

/// "State : In Progress" stands in columns, with many blanks before the colon: the longer side of it.
std::string without_columns(const std::string& text) {
  const std::size_t colon = text.find(" : ");
  if (colon == std::string::npos) return text;
  const std::string left = text.substr(0, colon);
  const std::string right = without_columns(text.substr(colon + 3));
  return left.size() > right.size() ? left : right;
}

/// Where the last piece of a pattern begins to which a '?' at its end would belong.
std::size_t begin_of_last_piece(const std::string& pattern) {
  const auto is_escaped = [&](std::size_t at) {
    std::size_t slashes = 0;
    while (slashes < at && pattern[at - 1 - slashes] == '\\') ++slashes;
    return slashes % 2 == 1;
  };
  std::size_t at = pattern.size() - 1;
  if (is_escaped(at)) return at - 1;
  if (pattern[at] == ']') {
    while (at > 0 && (pattern[at] != '[' || is_escaped(at))) --at;
    return at;
  }
  if (pattern[at] != ')') return at;
  int depth = 0;
  for (; at > 0; --at) {
    if (is_escaped(at)) continue;
    depth += pattern[at] == ')' ? 1 : pattern[at] == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  return at;
}

/// "s?" as "(?:s|)", which fits the same: RE2 puts the literals before and behind together across it. Patterns with a
/// bracket or parenthesis within a class are left as they are.
std::string with_options_spelt(const std::string& pattern) {
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      result += pattern.substr(i++, 2);
      continue;
    }
    if (in_class && std::string_view("[()").find(c) != std::string_view::npos) return pattern;
    in_class = c == '[' || (in_class && c != ']');
    const bool follows_piece =
        !result.empty() && std::string_view("(|?*+}").find(result.back()) == std::string_view::npos;
    if (c != '?' || in_class || !follows_piece) {
      result += c;
      continue;
    }
    const std::size_t begin = begin_of_last_piece(result);
    result = result.substr(0, begin) + "(?:" + result.substr(begin) + "|)";
  }
  return result;
}

/// The literals of which a line needs one to fit the pattern; none where there are no such. RE2 names all that its
/// prefilter heeds; the commonest are left out one after another, as long as no line without the others could fit.
std::vector<std::string> literals_of(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  constexpr int kShortest = 3;
  re2::FilteredRE2 filter(kShortest);
  int id = 0;
  if (filter.Add(pattern, options, &id) != RE2::NoError) return {};
  std::vector<std::string> all;
  filter.Compile(&all);
  std::vector<bool> kept(all.size(), true);
  const auto suffices = [&] {
    std::vector<int> others;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!kept[i]) others.push_back(static_cast<int>(i));
    }
    std::vector<int> possible;
    filter.AllPotentials(others, &possible);
    return possible.empty();
  };
  if (all.empty() || !suffices()) return {};
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, std::greater{}, [&](std::size_t i) { return commonness(all[i]); });
  for (const std::size_t i : order) {
    kept[i] = false;
    kept[i] = !suffices();
  }
  std::vector<std::string> literals;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kept[i]) literals.push_back(without_columns(all[i]));
  }
  return literals;
}

/// Those that wake fewest lines of an ordinary log.
std::vector<std::string> rarest_literals_of(const Entry& entry, const std::string& pattern) {
  const RE2 checked(pattern, RE2::Quiet);
  if (!checked.ok()) stop(entry, "pattern: RE2 does not understand it");
  std::vector<std::string> plain = literals_of(pattern);
  if (plain.empty())
    stop(entry, "pattern: every branch needs a literal of three characters, or each line would have to be tried");
  std::vector<std::string> spelt = literals_of(with_options_spelt(pattern));
  const auto cost = [](const std::vector<std::string>& literals) {
    return std::transform_reduce(literals.begin(), literals.end(), 0.0, std::plus{}, commonness);
  };
  return !spelt.empty() && cost(spelt) < 0.8 * cost(plain) ? spelt : plain;
}

std::string cause_row(Writer& writer, const Entry& entry) {
  check_keys(entry, {"id", "area", "title", "summary", "fix", "confirm", "link", "source", "explains", "restart",
                     "remedy", "fewer_ranks"});
  const auto summary = texts(entry, "summary");
  if (summary.empty() || summary.back().find('{') != std::string::npos)
    stop(entry, "the last summary must stand without facts");
  if (texts(entry, "fix").empty()) stop(entry, "a cause needs a fix");
  std::string row = "{" + writer.piece(needed(entry, "id")) + "," + writer.piece(needed(entry, "area")) + "," +
                    writer.piece(needed(entry, "title")) + "," + writer.list(summary);
  row += "," + writer.list(texts(entry, "fix")) + "," + writer.list(texts(entry, "confirm"));
  row += "," + writer.piece(needed(entry, "link")) + "," + writer.piece(needed(entry, "source"));
  static const std::set<std::string> restarts{"", "again", "other_gpus", "never"};
  const std::string restart = text(entry, "restart");
  if (!restarts.contains(restart)) stop(entry, "restart: '" + restart + "' is none of again, other_gpus, never");
  std::map<std::string, std::string> remedy;
  if (entry.node["remedy"])
    for (const auto& pair : entry.node["remedy"]) remedy[pair.first.as<std::string>()] = pair.second.as<std::string>();
  row += "," + writer.list(texts(entry, "explains")) + ",Restart::" + (restart.empty() ? "again" : restart);
  const std::string fewer = text(entry, "fewer_ranks");
  if (!fewer.empty() && fewer != "true") stop(entry, "fewer_ranks: it is true, or left out");
  return row + "," + writer.pairs(remedy) + (fewer.empty() ? ",false" : ",true") + "},\n";
}

void check_role(const Entry& entry, const std::set<std::string>& causes) {
  static const std::set<std::string> roles{"root", "symptom", "weak", "context", "silence", "ordinary", "harmless"};
  const std::string role = needed(entry, "role");
  if (!roles.contains(role)) stop(entry, "role '" + role + "' is not known");
  const bool names_cause = role == "root" || role == "symptom" || role == "weak";
  if (names_cause && !causes.contains(text(entry, "cause")))
    stop(entry, "there is no cause '" + text(entry, "cause") + "'");
  if (!names_cause && !text(entry, "cause").empty()) stop(entry, "a rule with role " + role + " has no cause");
  if (role == "harmless" && text(entry, "says").empty()) stop(entry, "a harmless line needs what it says");
  if ((role == "context") == text(entry, "context").empty()) stop(entry, "context: a tag, and only with role context");
}

std::string rule_row(Writer& writer, const Entry& entry, const std::set<std::string>& causes,
                     const Fragments& fragments) {
  check_keys(entry, {"id",       "cause",    "role", "pattern", "extract", "needs",     "lines",
                     "before",   "set",      "when", "unless",  "context", "any_level", "strength",
                     "overlaps", "examples", "says", "fix",     "link",    "reject",    "inspired_by"});
  check_role(entry, causes);
  const std::string pattern = resolved(entry, needed(entry, "pattern"), fragments);
  auto extract = texts(entry, "extract");
  for (std::string& more : extract) more = resolved(entry, more, fragments);
  std::map<std::string, std::string> set;
  if (entry.node["set"])
    for (const auto& pair : entry.node["set"]) set[pair.first.as<std::string>()] = json_of(pair.second).dump();
  std::string row = "{" + writer.piece(needed(entry, "id")) + "," + writer.piece(text(entry, "cause")) +
                    ",Role::" + needed(entry, "role") + "," + writer.piece(pattern) + "," +
                    writer.list(rarest_literals_of(entry, pattern)) + "," + writer.list(extract);
  row +=
      "," + std::to_string(small_number(entry, "lines", 40)) + "," + std::to_string(small_number(entry, "before", 3));
  row += "," + writer.list(texts(entry, "needs")) + "," + writer.pairs(set);
  row += "," + writer.list(texts(entry, "when"));
  row += "," + writer.list(texts(entry, "unless"));
  row += "," + writer.piece(text(entry, "context")) + "," + (text(entry, "any_level") == "true" ? "true" : "false");
  row += "," + std::to_string(strength(entry)) + "," + writer.list(texts(entry, "overlaps"));
  row +=
      "," + writer.examples(entry) + "," + writer.piece(text(entry, "says")) + "," + writer.list(texts(entry, "fix"));
  return row + "," + writer.piece(text(entry, "link")) + "," +
         writer.piece(resolved(entry, text(entry, "reject"), fragments)) + "," +
         writer.list(texts(entry, "inspired_by")) + "},\n";
}

/// Adds those of a file of fragments; such a file has nothing else.
void add_fragments(const Entry& file, Fragments& fragments) {
  check_keys(file, {"fragments"});
  const Entry all{file.file, file.node["fragments"]};
  for (const auto& pair : all.node) {
    const auto name = pair.first.as<std::string>();
    const auto pattern = pair.second.as<std::string>();
    const std::string reference = "{" + name + "}";
    if (gpuwarden::knowledge::end_of_name(reference, 1) == 1) stop(all, "'" + name + "' is no name of a fragment");
    if (!fragments.emplace(name, resolved(all, pattern, {})).second) stop(all, "'" + name + "' is there twice");
  }
}

/// The rules and causes of a file, and what it adds to the fragments.
std::vector<Entry> entries_of(const std::string& file, Fragments& fragments) {
  std::vector<Entry> entries;
  try {
    const YAML::Node root = YAML::LoadFile(file);
    if (root.IsMap()) {
      add_fragments({file, root}, fragments);
      return entries;
    }
    for (const auto& node : root) entries.push_back({file, node});
  } catch (const YAML::Exception& error) {
    std::fprintf(stderr, "%s: %s\n", file.c_str(), error.what());
    std::exit(1);
  }
  return entries;
}

void once(const Entry& entry, std::set<std::string>& seen) {
  if (!seen.insert(needed(entry, "id")).second) stop(entry, "'" + needed(entry, "id") + "' is there twice");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<Entry> rules;
  std::vector<Entry> causes;
  std::set<std::string> rule_ids;
  std::set<std::string> cause_ids;
  Fragments fragments;
  for (int i = 2; i < argc; ++i) {
    for (const Entry& entry : entries_of(argv[i], fragments)) {
      const bool is_rule = static_cast<bool>(entry.node["pattern"]);
      once(entry, is_rule ? rule_ids : cause_ids);
      (is_rule ? rules : causes).push_back(entry);
    }
  }
  Writer writer;
  std::string cause_rows;
  for (const Entry& entry : causes) {
    for (const std::string& other : texts(entry, "explains")) {
      if (!cause_ids.contains(other)) stop(entry, "explains: there is no cause '" + other + "'");
    }
    cause_rows += cause_row(writer, entry);
  }
  std::string rule_rows;
  for (const Entry& entry : rules) {
    for (const std::string& other : texts(entry, "overlaps")) {
      if (!rule_ids.contains(other)) stop(entry, "overlaps: there is no rule '" + other + "'");
    }
    rule_rows += rule_row(writer, entry, cause_ids, fragments);
  }
  std::ofstream out(argv[1]);
  writer.write(out, cause_rows, rule_rows);
  return out.good() ? 0 : 1;
}
