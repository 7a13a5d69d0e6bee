// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/shell.hpp"

#include <algorithm>
#include <utility>

namespace gpuwarden {

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos;
  return plain ? std::string(text) : shell_quoted(text);
}

std::optional<std::vector<std::string>> split_shell_words(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  const auto add = [&](char c) { word = word.value_or("") + c; };
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const char next = i + 1 < line.size() ? line[i + 1] : '\0';
    // Between double quotes a backslash means something before these alone.
    const bool escapes =
        c == '\\' && next != 0 && quote != '\'' && (quote == 0 || std::string_view("\"\\$`\n").contains(next));
    if (escapes) {
      if (next != '\n') add(next);
      ++i;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        add(c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      word = word.value_or("");
    } else if (std::string_view(" \t\r\n").contains(c)) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else {
      add(c);
    }
  }
  if (quote != 0) return std::nullopt;
  if (word) words.push_back(*std::move(word));
  return words;
}

std::string shell_of(const Environment& environment) {
  const auto own = environment.find("SHELL");
  return own == environment.end() ? "/bin/sh" : own->second;
}

}  // namespace gpuwarden
