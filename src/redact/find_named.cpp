// SPDX-License-Identifier: Apache-2.0
// Values whose names say that they are secrets: NAME=value, "name": "value", --name value, <name>value</name>.
#include <algorithm>
#include <array>

#include "redact/secret_names.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

bool is_name(char c) { return is_word(c) || c == '-' || c == '.'; }

std::size_t word_begin(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && end - begin < kLongestName && is_name(text[begin - 1])) --begin;
  return begin;
}

/// The name that ends before `separator`, without quotes, brackets and blanks between: os.environ["X"] = ...
std::string_view key_before(std::string_view text, std::size_t separator) {
  std::size_t end = separator;
  while (end > 0 && separator - end < 4 && is_blank(text[end - 1])) --end;
  while (end > 0 && separator - end < 12 &&
         (is_quote(text[end - 1]) || text[end - 1] == ']' || text[end - 1] == '\\' || text[end - 1] == ';'))
    --end;
  // XML's quote is a word of its own.
  if (end >= 5 && text.substr(end - 5, 5) == "&quot") end -= 5;
  std::size_t begin = word_begin(text, end);
  // "API key: ...": in prose the word before tells what kind of key.
  const bool in_prose = has_at(text, begin, "key") || has_at(text, begin, "token");
  if (in_prose && before(text, begin) == ' ' && begin >= 2) begin = word_begin(text, begin - 1);
  return text.substr(begin, end - begin);
}

/// Where the value behind a separator begins, or npos: "==", "=>", "::" and "://" separate something else.
std::size_t value_begin(std::string_view text, std::size_t separator) {
  const char next = at_or_end(text, separator + 1);
  const char previous = before(text, separator);
  const auto no = std::string_view::npos;
  if (text[separator] == ':' && (next == ':' || next == '/' || previous == ':')) return no;
  if (text[separator] == '=' && (next == '=' || std::string_view("=!<>").contains(previous))) return no;
  std::size_t at = separator + 1;
  if (text[separator] == '=' && next == '>') ++at;
  while (is_blank(at_or_end(text, at))) ++at;
  return at_or_end(text, at) == '\n' ? no : at;
}

/// Whether NAME=... is a line of its own, as `env` prints it: then blanks belong to the value.
bool is_environment_line(std::string_view text, std::string_view name, std::size_t separator) {
  const std::size_t begin = separator - name.size();
  return text[separator] == '=' && begin <= separator && before(text, begin) == '\n' &&
         std::ranges::none_of(name, is_lower);
}

bool is_pass_phrase(std::string_view name) {
  return name.ends_with("PASSWORD") || name.ends_with("PASSPHRASE") || name.ends_with("PASSWD");
}

void find_at_separator(std::string_view text, std::size_t separator, Spans& spans) {
  const std::string_view name = key_before(text, separator);
  // A path is no name: "-v /etc/passwd:/etc/passwd:ro".
  if (name.size() < 3 || before(text, static_cast<std::size_t>(name.data() - text.data())) == '/') return;
  if (secrecy_of(name) == Secrecy::none) return;
  const std::size_t begin = value_begin(text, separator);
  if (begin == std::string_view::npos) return;
  // The value of a block, or behind a tag, is found by find_settings.
  const char sign = at_or_end(text, begin);
  const std::size_t line_end = std::min(text.find('\n', begin), text.size());
  if ((sign == '|' || sign == '>' || sign == '!') && is_block_sign(text.substr(begin, line_end - begin))) return;
  Value value = value_at(text, begin);
  // Python's annotation: password: str = "..."
  if (text[separator] == ':' && !value.quoted) {
    std::size_t equals = value.end;
    while (is_blank(at_or_end(text, equals)) || at_or_end(text, equals) == ']') ++equals;
    const bool annotated = at_or_end(text, equals) == '=' && value_begin(text, equals) != std::string_view::npos;
    if (annotated) value = value_at(text, value_begin(text, equals));
  }
  if (!value.quoted && is_pass_phrase(name) && is_environment_line(text, name, separator))
    value.end = std::min(text.find_first_of("\r\n", begin), text.size());
  if (is_secret_value(name, text.substr(value.begin, value.end - value.begin)))
    spans.push_back({value.begin, value.end, Removed::named_value});
}

/// <password>value</password>
void find_in_element(std::string_view text, std::size_t close, Spans& spans) {
  const std::string_view name = key_before(text, close);
  const std::size_t open = close - std::min(close, name.size() + 1);
  if (name.size() < 3 || text[open] != '<' || secrecy_of(name) == Secrecy::none) return;
  const std::size_t end = std::min(text.find('<', close + 1), text.size());
  const std::string_view value = text.substr(close + 1, end - close - 1);
  if (!value.contains('\n') && is_secret_value(name, value)) spans.push_back({close + 1, end, Removed::named_value});
}

/// Over what stands between an option and its value: blanks, or the quotes and the comma of a printed list. `at` itself
/// where nothing stands there.
std::size_t behind_option(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end - at < 4 && at_or_end(text, end) == '\\') ++end;
  if (is_quote(at_or_end(text, end))) ++end;
  const std::size_t quoted = end;
  while (end - quoted < 4 && (is_blank(at_or_end(text, end)) || at_or_end(text, end) == ',')) ++end;
  return end == quoted ? at : end;
}

void find_option_value(std::string_view text, std::size_t name_end, Spans& spans) {
  const std::size_t from = behind_option(text, name_end);
  if (from == name_end) return;
  const Value value = value_at(text, from);
  const std::string_view word = text.substr(value.begin, value.end - value.begin);
  const bool number = word.size() < 6 && std::ranges::all_of(word, is_digit);
  if (word.starts_with("--") || number || is_placeholder(word) || is_path(word)) return;
  spans.push_back({value.begin, value.end, Removed::named_value});
}

/// Programs whose short options, or next words, are secrets.
struct Habit {
  std::string_view program;  ///< with the words that must follow it
  std::string_view option;   ///< with its blank; or "": the next word itself
};
constexpr auto kHabits = std::to_array<Habit>({{"docker login", " -p "},
                                               {"podman login", " -p "},
                                               {"sshpass", " -p "},
                                               {"sshpass -p", ""},
                                               {"mysql", " -p"},
                                               {"curl", " -u "},
                                               {"curl", " -u"},
                                               {"curl", " --user "},
                                               {"curl", " --proxy-user "},
                                               {"wget", " --user "},
                                               {"wandb login", " "},
                                               {"wandb.login(", "key="},
                                               {"wandb: Paste", ": "},
                                               {"ngc config set", " "},
                                               {"ngc key", ": "},
                                               {"machine", " password "}});

/// "-phunter2", but neither "-port" nor "-p3306:3306".
bool mixes_letters_and_digits(std::string_view word) {
  return word.size() >= 4 && std::ranges::any_of(word, is_letter) && std::ranges::any_of(word, is_digit);
}

void find_habit(std::string_view line, std::size_t offset, const Habit& habit, Spans& spans) {
  const std::size_t program = line.find(habit.program);
  if (program == std::string_view::npos || is_word(before(line, program))) return;
  const std::size_t option = line.find(habit.option, program + habit.program.size());
  if (option == std::string_view::npos) return;
  const Value value = value_at(line, option + habit.option.size());
  const std::string_view word = line.substr(value.begin, value.end - value.begin);
  const bool bare = habit.option == " " || habit.option == " -p" || habit.option == "key=" || habit.option == ": ";
  if (word.empty() || word.starts_with('-') || is_placeholder(word)) return;
  if (bare && !looks_random(word) && (habit.option != " -p" || !mixes_letters_and_digits(word))) return;
  if (habit.program == "curl" && !word.contains(':')) return;
  spans.push_back({offset + value.begin, offset + value.end, Removed::named_value});
}

/// The first characters of the programs, to look no further in most lines.
bool may_have_habit(std::string_view line) {
  return line.contains("login") || line.contains("sshpass") || line.contains("mysql") || line.contains("curl") ||
         line.contains("wget") || line.contains("machine ") || line.contains("ngc ") || line.contains("wandb: ");
}

}  // namespace

void find_named_values(std::string_view text, Spans& spans) {
  for (std::size_t at = text.find_first_of("=:>"); at != std::string_view::npos; at = text.find_first_of("=:>", at)) {
    const std::size_t before = spans.size();
    if (text[at] == '>')
      find_in_element(text, at, spans);
    else
      find_at_separator(text, at, spans);
    // What was found is not searched again: text of the kind password=password=... would take its length squared.
    at = spans.size() > before ? spans.back().end : at + 1;
  }
}

void find_option_values(std::string_view text, Spans& spans) {
  for (std::size_t at = text.find("--"); at != std::string_view::npos; at = text.find("--", at + 1)) {
    if (is_name(before(text, at))) continue;
    std::size_t end = at + 2;
    while (end < text.size() && end - at < kLongestName && is_name(text[end])) ++end;
    if (secrecy_of(text.substr(at + 2, end - at - 2)) != Secrecy::none) find_option_value(text, end, spans);
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (may_have_habit(line)) {
      for (const Habit& habit : kHabits) find_habit(line, begin, habit, spans);
    }
    begin = end + 1;
  }
}

}  // namespace gpuwarden::redact
