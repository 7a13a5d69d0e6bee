// SPDX-License-Identifier: Apache-2.0
// Sources: llama.cpp common/common.h (LLM_FFN_EXPS_REGEX, llm_ffn_exps_block_regex: what --cpu-moe and --n-cpu-moe put
// in front of these patterns) and common/arg.cpp (--override-tensor PATTERN=BUFFER,...).
#include "planning/tensor_overrides.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

constexpr std::size_t kLongestPattern = 2000;
constexpr std::uint32_t kMostBlocks = 1000;

/// What stands for any part of a name. Taken out of a pattern, only words of names are left.
constexpr auto kAnything = std::to_array<std::string_view>({"\\d+", "[0-9]+", "(.*)", ".*", ".+", "*"});

void take_out(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

/// Whether the pattern is of all three matrices of the routed experts and of nothing else.
bool names_experts(std::string pattern) {
  for (const std::string_view part : kAnything) take_out(pattern, part);
  for (const std::string_view part : {"\\.", ".", "^", "$", "blk", "weight"}) take_out(pattern, part);
  for (const std::string_view all : {"(up|down|gate)", "(up|gate|down)", "(gate|up|down)", "(gate|down|up)",
                                     "(down|up|gate)", "(down|gate|up)", "(ch|)"})
    take_out(pattern, all);
  return pattern == "exps" || pattern == "_exps" || pattern == "ffn_exps" || pattern == "ffn__exps";
}

/// Numbers that one alternative matches: digits and classes of one digit, "1[0-9]".
std::optional<std::vector<std::uint32_t>> numbers_of(std::string_view text) {
  std::vector<std::uint32_t> numbers{0};
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    char least = text[0];
    char most = text[0];
    std::size_t length = 1;
    if (text.size() >= 5 && text[0] == '[' && text[2] == '-' && text[4] == ']') {
      least = text[1];
      most = text[3];
      length = 5;
    }
    if (least < '0' || most > '9' || least > most || numbers.size() > kMostBlocks) return std::nullopt;
    std::vector<std::uint32_t> longer;
    for (const std::uint32_t number : numbers) {
      for (char digit = least; digit <= most; ++digit)
        longer.push_back(number * 10 + static_cast<std::uint32_t>(digit - '0'));
    }
    numbers = std::move(longer);
    text.remove_prefix(length);
  }
  return numbers;
}

/// N where the alternatives are 0 to N-1: as --n-cpu-moe has it.
std::optional<std::uint32_t> first_blocks(std::string_view alternatives) {
  std::vector<std::uint32_t> blocks;
  for (const std::string_view part : split(alternatives, '|')) {
    const auto numbers = numbers_of(part);
    if (!numbers || blocks.size() + numbers->size() > kMostBlocks) return std::nullopt;
    blocks.insert(blocks.end(), numbers->begin(), numbers->end());
  }
  std::ranges::sort(blocks);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] != i) return std::nullopt;
  }
  return static_cast<std::uint32_t>(blocks.size());
}

/// The pattern without the numbers of its blocks, and how many these are; empty numbers: all.
struct Blocks {
  std::string pattern;
  std::optional<std::uint32_t> first;
};

std::optional<Blocks> blocks_of(std::string_view pattern) {
  for (const std::string_view before : {"blk\\.", "blk."}) {
    const std::size_t start = pattern.find(before);
    if (start == std::string_view::npos) continue;
    const std::size_t begin = start + before.size();
    std::string_view rest = pattern.substr(begin);
    const bool grouped = rest.starts_with('(');
    const std::size_t end = grouped ? rest.find(')') : rest.find_first_not_of("0123456789[-]");
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view numbers = rest.substr(grouped ? 1 : 0, end - (grouped ? 1 : 0));
    rest.remove_prefix(end + (grouped ? 1 : 0));
    const bool any = numbers.empty() || rest.starts_with('+') || numbers == "\\d+" || numbers == "[0-9]+";
    if (any) return Blocks{std::string(pattern), std::nullopt};
    // "blk.1" without a dot behind it is 10, too.
    if (!rest.starts_with("\\.") && !rest.starts_with('.')) return std::nullopt;
    const auto first = first_blocks(numbers);
    if (!first) return std::nullopt;
    return Blocks{std::string(pattern.substr(0, begin)) + std::string(rest), first};
  }
  return Blocks{std::string(pattern), std::nullopt};
}

}  // namespace

std::optional<std::string> host_experts_of(std::string_view value) {
  if (value.size() > kLongestPattern) return std::nullopt;
  const std::size_t equals = value.rfind('=');
  // Several patterns may name the same tensors; the first that does counts.
  if (equals == std::string_view::npos || value.substr(0, equals).contains('=')) return std::nullopt;
  if (to_lower(trim(value.substr(equals + 1))) != "cpu") return std::nullopt;
  const auto blocks = blocks_of(trim(value.substr(0, equals)));
  if (!blocks || !names_experts(blocks->pattern)) return std::nullopt;
  return blocks->first ? std::to_string(*blocks->first) : "all";
}

}  // namespace gpuwarden::planning
