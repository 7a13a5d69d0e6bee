// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/foreign_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

/// What may stand behind another program's switch.
bool is_switched(std::string_view word) {
  static constexpr std::string_view kWords[] = {"true", "false", "on", "off", "auto"};
  return std::ranges::find(kWords, to_lower(word)) != std::end(kWords);
}

}  // namespace

bool looks_like_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
}

std::string hyphenated(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '_', '-');
  return result;
}

const ForeignOption* find_foreign_option(std::span<const ForeignOption> table, std::string_view typed) {
  const auto found = std::ranges::find(table, hyphenated(typed), &ForeignOption::typed);
  return found == table.end() ? nullptr : &*found;
}

bool is_taken(const ForeignOption* option) {
  return option != nullptr && option->kind != ForeignOption::Kind::refused &&
         option->kind != ForeignOption::Kind::refused_value;
}

Result<bool> takes_next_word(const ForeignOption& option, bool attached, const std::string* next) {
  if (attached) return false;
  if (option.kind == ForeignOption::Kind::needless || option.kind == ForeignOption::Kind::left_out)
    return next != nullptr && is_switched(*next);
  if (next == nullptr)
    return fail(ErrorCode::invalid_argument, fmt::format("{} needs a value", option.typed),
                fmt::format("leave it out: {}", option.hint));
  return true;
}

Error refusal_of(const ForeignOption* option, std::string_view typed, const std::string* value) {
  const char* const hint = option == nullptr ? "" : option->hint;
  if (option == nullptr || option->kind != ForeignOption::Kind::refused_value)
    return {ErrorCode::invalid_argument, fmt::format("unknown option '{}'", printable(typed)), hint};
  if (value == nullptr) return {ErrorCode::invalid_argument, fmt::format("{} needs a value", printable(typed)), hint};
  return {ErrorCode::invalid_argument, fmt::format("'{} {}' is not planned", printable(typed), printable(*value)),
          hint};
}

std::vector<std::string> taken_sentences(const std::vector<const ForeignOption*>& options) {
  std::vector<const ForeignOption*> reasons;
  std::vector<std::string> sentences;
  for (const ForeignOption* const option : options) {
    const std::string_view hint = option->hint;
    if (std::ranges::any_of(reasons, [&](const ForeignOption* one) { return one->hint == hint; })) continue;
    reasons.push_back(option);
    std::vector<std::string> names;
    for (const ForeignOption* const one : options) {
      if (one->hint == hint && std::ranges::find(names, one->typed) == names.end()) names.emplace_back(one->typed);
    }
    const bool left_out =
        option->kind == ForeignOption::Kind::left_out || option->kind == ForeignOption::Kind::left_out_value;
    sentences.push_back(fmt::format("{} {} {}: {}", join(names, ", "), names.size() == 1 ? "is" : "are",
                                    left_out ? "left out" : "not needed", hint));
  }
  return sentences;
}

}  // namespace gpuwarden
