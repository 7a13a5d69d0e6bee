// SPDX-License-Identifier: Apache-2.0
#include "knowledge/other_names.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "knowledge/names.hpp"

namespace gpuwarden::knowledge {
namespace {

bool is_decimal(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// "-80C": memory in GB and the kind of a vGPU: compute, workstation, PC, application (source: NVIDIA vGPU user guide,
/// vGPU types). "-2-20C" and "-4-20CME" are vGPUs on a MIG instance.
bool is_profile(std::string_view text) {
  if (text.ends_with("ME")) text.remove_suffix(2);
  if (text.size() < 2 || !std::string_view("ABCQ").contains(text.back())) return false;
  text.remove_suffix(1);
  return !text.empty() && std::ranges::all_of(text, is_decimal);
}

/// A product whose GPU has no NVML name of its own.
struct Product {
  std::string_view words;  ///< all in the name
  int architecture;
  std::string_view source;
};
constexpr Product kProducts[] = {
#include "knowledge/gpu_products.inc"
};

}  // namespace

std::string board_of_vgpu(std::string_view name) {
  std::string_view board = without_maker(name);
  constexpr std::string_view kGrid = "GRID ";
  if (board.starts_with(kGrid)) board.remove_prefix(kGrid.size());
  const std::size_t dash = board.rfind('-');
  if (dash == std::string_view::npos || !is_profile(board.substr(dash + 1))) return "";
  const auto parts = split(board.substr(0, dash), '-');
  const std::string_view first = parts[0];
  const bool old_rtx = first.starts_with("RTX") && !first.contains(' ');
  std::string result = old_rtx ? "RTX " + std::string(first.substr(3)) : std::string(first);
  // "A100D", "V100DX", "H100XM": another memory or form of the same board. "L40S" is a board of its own.
  while (!result.empty() && std::string_view("DXML").contains(result.back()) && result.size() > 2) result.pop_back();
  // "RTX6000-Ada"; the number of a MIG profile ("A100-2") is no part of the name.
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!std::ranges::all_of(parts[i], is_decimal)) result += " " + std::string(parts[i]);
  }
  return result;
}

std::optional<int> architecture_of_product(std::string_view name) {
  const auto* const known = std::ranges::find_if(kProducts, [&](const Product& product) {
    return std::ranges::all_of(split_words(product.words),
                               [&](std::string_view word) { return has_words(name, word); });
  });
  return known == std::end(kProducts) ? std::nullopt : std::optional(known->architecture);
}

}  // namespace gpuwarden::knowledge
