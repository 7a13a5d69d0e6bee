// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {

namespace {

constexpr auto kVariables = std::to_array<KnownVariable>({
#include "knowledge/variables.inc"
});

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

Error unknown_word(const std::string& word) {
  std::vector<std::string> names;
  for (const KnownVariable& one : kVariables) {
    names.emplace_back(one.name);
    if (std::ranges::find(names, one.software) == names.end()) names.emplace_back(one.software);
  }
  std::string upper = word;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string close = closest_match(upper, names);
  return {ErrorCode::invalid_argument, fmt::format("nothing is known about '{}'", printable(word)),
          close.empty() ? "gpuwarden env explain shows all; or: nccl, cuda, pytorch, vllm, container"
                        : fmt::format("did you mean '{}'?", close)};
}

}  // namespace

std::span<const KnownVariable> known_variables() { return kVariables; }

const KnownVariable* find_known_variable(std::string_view name) {
  const auto* const found = std::ranges::find_if(kVariables, [&](const auto& one) { return same(one.name, name); });
  return found == kVariables.end() ? nullptr : found;
}

Result<std::vector<const KnownVariable*>> find_known_variables(const std::vector<std::string>& words) {
  std::vector<const KnownVariable*> result;
  if (words.empty()) {
    for (const KnownVariable& one : kVariables) result.push_back(&one);
  }
  for (const std::string& word : words) {
    bool known = false;
    for (const KnownVariable& one : kVariables) {
      if (one.software != to_lower(word) && !same(one.name, word)) continue;
      known = true;
      if (std::ranges::find(result, &one) == result.end()) result.push_back(&one);
    }
    if (!known) return std::unexpected(unknown_word(word));
  }
  return result;
}

}  // namespace gpuwarden::knowledge
