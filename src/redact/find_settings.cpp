// SPDX-License-Identifier: Apache-2.0
// Secrets whose name and value no '=' or ':' joins: setenv NAME value, ("NAME", "value"), netrc's lines, YAML's blocks.
#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "redact/secret_names.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

/// A block of YAML that is longer is cut off here, so that a text of nothing but such names takes no time squared.
constexpr std::size_t kLongestYamlBlock = std::size_t{64} << 10U;

std::size_t line_end(std::string_view text, std::size_t at) { return std::min(text.find('\n', at), text.size()); }

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (is_blank(at_or_end(text, at))) ++at;
  return at;
}

void add_value(std::string_view name, std::string_view text, std::size_t begin, std::size_t end, Spans& spans) {
  if (is_secret_value(name, text.substr(begin, end - begin))) spans.push_back({begin, end, Removed::named_value});
}

/// What follows "setenv " or "set -gx ": a name, blanks, a value.
void find_assigned(std::string_view text, std::size_t at, Spans& spans) {
  at = skip_blanks(text, at);
  while (at_or_end(text, at) == '-') at = skip_blanks(text, std::min(text.find_first_of(" \t\n", at), text.size()));
  std::size_t end = at;
  while (end < text.size() && end - at < kLongestName && is_word(text[end])) ++end;
  const std::size_t from = skip_blanks(text, end);
  if (from == end || at_or_end(text, from) == '=') return;
  const Value value = value_at(text, from);
  add_value(text.substr(at, end - at), text, value.begin, value.end, spans);
}

void find_commands(std::string_view text, Spans& spans) {
  static constexpr std::array<std::string_view, 4> kCommands{"setenv ", "set -", "ENV ", "ARG "};
  for (const std::string_view command : kCommands) {
    for (std::size_t at = text.find(command); at != std::string_view::npos; at = text.find(command, at + 1)) {
      // fish takes the '-' as an option's: it stays for find_assigned to skip.
      const std::size_t behind = at + command.size() - (command.ends_with('-') ? 1 : 0);
      if (!is_word(before(text, at))) find_assigned(text, behind, spans);
    }
  }
}

/// "AWS_SECRET_ACCESS_KEY  wJalr...": a variable's name before a word that looks drawn by lot, as tables print them.
void find_in_table(std::string_view text, Spans& spans) {
  for (std::size_t at = text.find('_'); at != std::string_view::npos; at = text.find('_', at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && at - begin < kLongestName && is_word(text[begin - 1])) --begin;
    std::size_t end = at;
    while (end < text.size() && end - at < kLongestName && is_word(text[end])) ++end;
    const std::string_view name = text.substr(begin, end - begin);
    at = end - 1;
    if (!is_blank(at_or_end(text, end)) || std::ranges::any_of(name, is_lower)) continue;
    std::size_t from = skip_blanks(text, end);
    if (at_or_end(text, from) == '|') from = skip_blanks(text, from + 1);
    const Value value = value_at(text, from);
    const std::string_view word = text.substr(value.begin, value.end - value.begin);
    if (!looks_random(word) || word.contains("://") || word.contains('=')) continue;
    add_value(name, text, value.begin, value.end, spans);
  }
}

/// The quoted name that ends before `comma` and opens a list of arguments, or an empty one.
std::string_view first_argument(std::string_view text, std::size_t comma) {
  std::size_t end = comma;
  while (end > 0 && comma - end < 4 && is_blank(text[end - 1])) --end;
  if (!is_quote(before(text, end))) return {};
  --end;
  while (end > 0 && text[end - 1] == '\\') --end;
  std::size_t begin = end;
  while (begin > 0 && end - begin < kLongestName && (is_word(text[begin - 1]) || text[begin - 1] == '-')) --begin;
  if (begin == end || !is_quote(before(text, begin))) return {};
  std::size_t open = begin - 1;
  while (open > 0 && begin - open < 12 && (text[open - 1] == '\\' || is_blank(text[open - 1]))) --open;
  const char bracket = before(text, open);
  return bracket == '(' || bracket == '[' ? text.substr(begin, end - begin) : std::string_view{};
}

/// ("HF_TOKEN", "x"): what follows the comma, unless it is a name too, as in a list of names.
void find_argument(std::string_view text, std::size_t comma, Spans& spans) {
  const std::string_view name = first_argument(text, comma);
  if (name.empty() || name.starts_with('-')) return;
  const Value value = value_at(text, skip_blanks(text, comma + 1));
  const std::string_view word = text.substr(value.begin, value.end - value.begin);
  const bool is_name = word.contains('_') && std::ranges::all_of(word, [](char c) { return is_upper(c) || c == '_'; });
  if (value.quoted && !is_name) add_value(name, text, value.begin, value.end, spans);
}

bool is_login_line(std::string_view line) {
  static constexpr std::array<std::string_view, 4> kWords{"machine", "login", "account", "default"};
  const auto words = split_words(line.substr(0, 512));
  return !words.empty() && std::ranges::find(kWords, words[0]) != kWords.end();
}

/// "password incorrect" on a line of its own is a message.
bool is_said_of_passwords(std::string_view word) {
  static constexpr std::array<std::string_view, 24> kSaid{
      "incorrect", "required", "prompt", "authentication", "changed", "expired", "accepted",   "failed",
      "for",       "is",       "reset",  "updated",        "file",    "not",     "mismatch",   "protected",
      "missing",   "ok",       "set",    "hash",           "policy",  "wrong",   "protection", "login"};
  while (!word.empty() && !is_alnum(word.back())) word.remove_suffix(1);
  return std::ranges::find(kSaid, word) != kSaid.end();
}

/// netrc (Python's and curl's manual): "password X" in a line of its own near "machine" or "login".
void find_netrc(std::string_view text, std::size_t begin, std::string_view previous, Spans& spans) {
  const std::string_view line = text.substr(begin, line_end(text, begin) - begin);
  if (line.size() > 512 || !line.contains("password ")) return;
  const auto words = split_words(line);
  const bool alone = words.size() == 2 && words[0] == "password";
  const bool behind_login = words.size() == 4 && words[0] == "login" && words[2] == "password";
  if (!alone && !behind_login) return;
  const bool prose = alone && !is_login_line(previous) && is_said_of_passwords(words[1]);
  const std::string_view word = words.back();
  if (prose) return;
  const auto at = static_cast<std::size_t>(word.data() - text.data());
  add_value("password", text, at, at + word.size(), spans);
}

std::size_t indent_of(std::string_view line) {
  const std::size_t indent = line.find_first_not_of(" \t\r");
  return indent == std::string_view::npos ? line.size() : indent;
}

/// Whether a value is YAML's sign of a block: "|", ">-", "!vault |", with a comment at most behind it.
bool begins_block(std::string_view value) {
  value = trim(value.substr(0, value.find(" #")));
  if (value.starts_with('!')) value = trim(value.substr(std::min(value.find(' '), value.size())));
  if (value.empty() || (value[0] != '|' && value[0] != '>')) return false;
  return std::ranges::all_of(value.substr(1), [](char c) { return c == '-' || c == '+' || is_digit(c); });
}

/// Where the lines that are indented deeper than `indent` end, from `at` on: a line's end.
std::size_t end_of_block(std::string_view text, std::size_t at, std::size_t indent) {
  std::size_t end = at;
  const std::size_t limit = std::min(text.size(), at + kLongestYamlBlock);
  while (at < limit) {
    const std::string_view line = text.substr(at, line_end(text, at) - at);
    const bool empty = trim(line).empty();
    if (!empty && indent_of(line) <= indent) break;
    if (!empty) end = at + line.size();
    at += line.size() + 1;
  }
  return end;
}

/// {"name": "HF_TOKEN", "value": "x"} and "- name: HF_TOKEN", "  value: x", as Kubernetes lists variables.
void find_listed_variable(std::string_view text, std::size_t at, Spans& spans) {
  const auto skip = [&](std::size_t from, std::string_view characters) {
    return std::min(text.substr(0, std::min(text.size(), from + 128)).find_first_not_of(characters, from), text.size());
  };
  std::size_t from = skip(at + 4, "\"'\\");
  if (at_or_end(text, from) != ':') return;
  from = skip(from + 1, " \"'\\");
  std::size_t end = from;
  while (end < text.size() && end - from < kLongestName && is_word(text[end])) ++end;
  std::size_t key = skip(end, " \t\r\n,\"'\\");
  if (!has_at(text, key, "value") || key == end) return;
  key = skip(key + 5, "\"'\\");
  if (at_or_end(text, key) != ':') return;
  const Value value = value_at(text, skip_blanks(text, key + 1));
  add_value(text.substr(from, end - from), text, value.begin, value.end, spans);
}

/// "password: |" with its value in the lines below, and "hf_token: !secret X".
void find_yaml(std::string_view text, std::size_t begin, Spans& spans) {
  const std::size_t end = line_end(text, begin);
  const std::size_t colon = text.substr(0, end).find(": ", begin);
  if (colon == std::string_view::npos) return;
  std::size_t name = begin;
  while (name < colon && (is_blank(text[name]) || text[name] == '-' || is_quote(text[name]))) ++name;
  const std::size_t from = skip_blanks(text, colon + 1);
  const std::string_view value = text.substr(from, end - from);
  const std::string_view key = text.substr(name, colon - name);
  const std::string_view word = key.substr(0, key.find_first_of("\"' "));
  if (begins_block(value)) {
    const std::size_t first = std::min(end + 1, text.size());
    const std::size_t last = end_of_block(text, first, name - begin);
    const std::size_t inside = std::min(first + indent_of(text.substr(first, last - first)), last);
    // One '$' makes a placeholder of a word, not of a block: "$ANSIBLE_VAULT;1.1".
    const std::size_t dollar = text[std::min(inside, text.size() - 1)] == '$' ? 1 : 0;
    const std::string_view block = text.substr(inside, last - inside);
    if (is_secret_value(word, block.contains('\n') ? block.substr(dollar) : block))
      spans.push_back({inside, last, Removed::named_value});
  } else if (value.starts_with('!')) {
    const std::size_t tag = text.substr(0, end).find(' ', from);
    if (tag == std::string_view::npos) return;
    const Value given = value_at(text, skip_blanks(text, tag));
    // The tag goes too: it may be the beginning of a password.
    if (is_secret_value(word, text.substr(given.begin, given.end - given.begin)))
      spans.push_back({from, given.end, Removed::named_value});
  }
}

/// "openssl ... -passin pass:X" (openssl-passphrase-options).
void find_pass_source(std::string_view text, std::size_t at, Spans& spans) {
  std::size_t end = at;
  while (end > 0 &&
         (is_blank(text[end - 1]) || is_quote(text[end - 1]) || text[end - 1] == ',' || text[end - 1] == '='))
    --end;
  static constexpr std::array<std::string_view, 4> kOptions{"-passin", "-passout", "-pass", "-password"};
  if (end == at || std::ranges::none_of(kOptions, [&](std::string_view o) { return text.substr(0, end).ends_with(o); }))
    return;
  const Value value = value_at(text, at + 5);
  add_value("password", text, value.begin, value.end, spans);
}

}  // namespace

bool is_block_sign(std::string_view value) { return begins_block(value); }

void find_settings(std::string_view text, Spans& spans) {
  find_commands(text, spans);
  find_in_table(text, spans);
  for (std::size_t at = text.find(','); at != std::string_view::npos; at = text.find(',', at + 1))
    find_argument(text, at, spans);
  for (std::size_t at = text.find("pass:"); at != std::string_view::npos; at = text.find("pass:", at + 1))
    find_pass_source(text, at, spans);
  for (std::size_t at = text.find("name"); at != std::string_view::npos; at = text.find("name", at + 1))
    find_listed_variable(text, at, spans);
  std::string_view previous;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = line_end(text, begin);
    find_netrc(text, begin, previous, spans);
    find_yaml(text, begin, spans);
    previous = text.substr(begin, end - begin);
    begin = end + 1;
  }
}

}  // namespace gpuwarden::redact
