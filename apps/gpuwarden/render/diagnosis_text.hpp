// SPDX-License-Identifier: Apache-2.0
// The causes of a failure, for people.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpuwarden/logs/diagnose.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// How much of a diagnosis is shown.
struct DiagnosisView {
  std::size_t causes = 3;     ///< how many, at most
  bool all_evidence = false;  ///< every line, not the two most telling ones
};

/// The causes, likeliest first, each with its reasons, lines, steps, and what followed from it; or that there is none.
std::string diagnosis_text(const logs::Report& report, const DiagnosisView& view, const Style& style);

/// The first `most` of the items, each as `text_of` has it, and how many more things ("line"; may be empty) --all
/// shows.
template <class Item, class TextOf>
std::string first_of(const std::vector<Item>& items, std::size_t most, std::size_t indent, std::string_view thing,
                     TextOf text_of) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, items.size()); ++i) text += text_of(items[i]);
  if (most >= items.size()) return text;
  const std::size_t left = items.size() - most;
  return text +
         fmt::format("{:>{}}({}: --all)\n", "", indent,
                     thing.empty() ? fmt::format("{} more", left) : counted(left, fmt::format("more {}", thing)));
}

/// "   why: words", broken at the width, its further lines behind `indent` blanks (0: below the words). Nothing without
/// words.
std::string labelled(std::string_view label, std::string_view words, const Style& style, std::size_t indent = 0);

/// Steps of a fix or of a proof: commands on lines of their own that can be copied, advice broken at the width.
std::string steps_text(const std::string& label, const std::vector<std::string>& steps, std::size_t indent,
                       const Style& style);

/// "very likely" for 0.9.
std::string_view words_for(double confidence);

}  // namespace gpuwarden::cli
