// SPDX-License-Identifier: Apache-2.0
#include "planning/similar_names.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

namespace gpuwarden::planning {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter_or_digit(char c) { return is_digit(c) || (small(c) >= 'a' && small(c) <= 'z'); }

/// Letters to insert, delete or change (Levenshtein) between two short texts.
std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Whether letters and digits of `name` hold `wanted`, and no longer number: "Llama-3-8B" holds "llama3", "llama-30b"
/// does not.
bool holds(std::string_view name, std::string_view wanted) {
  for (std::size_t start = 0; start < name.size(); ++start) {
    std::size_t matched = 0;
    std::size_t at = start;
    for (; at < name.size() && matched < wanted.size(); ++at) {
      if (!is_letter_or_digit(name[at])) continue;
      if (small(name[at]) != wanted[matched]) break;
      ++matched;
    }
    if (matched == wanted.size() && (at == name.size() || !is_digit(name[at]))) return true;
  }
  return false;
}

/// How a known name is like one that is not; the least is the most like it.
enum class Likeness { holds_it, few_letters_differ, same_family, none };

/// About a third of the letters may differ. Of one family are those that hold the letters before the first number.
Likeness likeness_of(std::string_view own, std::string_view wanted, std::size_t away) {
  constexpr std::size_t kFewestLetters = 4;
  constexpr std::size_t kFewestOfFamily = 3;
  if (wanted.size() >= kFewestLetters && holds(own, wanted)) return Likeness::holds_it;
  if (3 * away <= wanted.size() + 1) return Likeness::few_letters_differ;
  const auto* const number = std::ranges::find_if(wanted, is_digit);
  const std::string_view family(wanted.begin(), number);
  return family.size() >= kFewestOfFamily && holds(own, family) ? Likeness::same_family : Likeness::none;
}

}  // namespace

std::vector<std::string> names_like(std::string_view wanted, std::span<const KnownName> known) {
  constexpr std::size_t kMost = 5;
  struct Near {
    Likeness likeness;
    std::size_t away;
    std::string_view name;
  };
  std::vector<Near> near;
  for (const KnownName& one : known) {
    const std::size_t away = letters_apart(wanted, one.bare);
    const Likeness likeness = likeness_of(one.name.substr(one.name.rfind('/') + 1), wanted, away);
    if (likeness != Likeness::none) near.push_back({likeness, likeness == Likeness::holds_it ? 0 : away, one.name});
  }
  std::ranges::stable_sort(near, {}, [](const Near& one) { return std::pair(one.likeness, one.away); });
  const bool held = !near.empty() && near.front().likeness == Likeness::holds_it;
  if (held) std::erase_if(near, [](const Near& one) { return one.likeness != Likeness::holds_it; });
  std::vector<std::string> names;
  for (const Near& one : near | std::views::take(kMost)) names.emplace_back(one.name);
  return names;
}

}  // namespace gpuwarden::planning
