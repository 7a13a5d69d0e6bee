// SPDX-License-Identifier: Apache-2.0
// How common a text is in the logs of healthy programs, by its words.
#pragma once

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <string>

#include "diagnosis/common_words.hpp"

namespace gpuwarden::knowledge {

inline const std::set<std::string>& common_words() {
  static const auto words = [] {
    std::istringstream all{std::string(diagnosis::kCommonWords)};
    std::set<std::string> result;
    for (std::string word; all >> word;) result.insert(word);
    return result;
  }();
  return words;
}

/// Whether a word is common, or what is left of a common one that a text begins or ends within.
inline bool is_common_word(const std::string& word, bool begins_within, bool ends_within) {
  if (common_words().contains(word)) return true;
  return std::ranges::any_of(common_words(), [&](const std::string& common) {
    const std::size_t at = common.find(word);
    return at != std::string::npos && (begins_within || at == 0) && (ends_within || at + word.size() == common.size());
  });
}

/// How many lines of an ordinary log a text in lower case may stand in, in no unit.
inline double commonness(const std::string& text) {
  constexpr std::size_t kShort = 6;    // below, the scanner has to look at more places, too
  constexpr std::size_t kTelling = 4;  // letters of words that are not common
  constexpr double kDear = 5000;
  constexpr double kOneMoreWord = 0.2;
  std::string word;
  std::size_t rare = 0;
  double common = 1000;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const auto c = static_cast<unsigned char>(i < text.size() ? text[i] : ' ');
    if (std::isalnum(c) != 0 || c >= 0x80) {
      word += static_cast<char>(c);
      continue;
    }
    const bool is_common = word.empty() || is_common_word(word, word.size() == i, i == text.size());
    if (!is_common) rare += word.size();
    if (is_common && word.size() > 2) common *= kOneMoreWord;
    word.clear();
  }
  if (rare + 1 >= kTelling) common = rare >= kTelling ? 1 : 20;
  return (text.size() < kShort ? kDear : 0.0) + common * (1 + 10.0 / static_cast<double>(text.size()));
}

}  // namespace gpuwarden::knowledge
