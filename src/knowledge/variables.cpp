// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {

namespace {

constexpr auto kVariables = std::to_array<KnownVariable>({
#include "knowledge/variables.inc"
});

bool same(std::string_view a, std::string_view b) { return to_upper(a) == to_upper(b); }

/// "LD_LIBRARY_PATH" of "$LD_LIBRARY_PATH", "${...}" and "export LD_LIBRARY_PATH=/x", as people copy them from a shell.
std::string_view name_in(std::string_view word) {
  word = trim(word);
  if (word.starts_with("export ")) word = trim(word.substr(7));
  if (word.starts_with("${") && word.ends_with('}')) word = word.substr(2, word.size() - 3);
  if (word.starts_with('$')) word.remove_prefix(1);
  return word.substr(0, word.find('='));
}

/// All software that variables are known of, as "cuda, nccl ...".
std::vector<std::string> known_software() {
  std::vector<std::string> names;
  for (const KnownVariable& one : kVariables) {
    if (std::ranges::find(names, one.software) == names.end()) names.emplace_back(one.software);
  }
  return names;
}

/// The variables that share most words with a name, at most three: NCCL_IB_FOO has those of NCCL_IB_HCA.
std::vector<std::string> of_the_same_words(std::string_view name) {
  constexpr std::size_t kMost = 3;
  const auto wanted = split(name, '_');
  std::vector<std::string> best;
  std::size_t most = 1;
  for (const KnownVariable& one : kVariables) {
    const auto words = split(one.name, '_');
    const auto shared = static_cast<std::size_t>(std::ranges::count_if(
        words, [&](std::string_view word) { return std::ranges::find(wanted, word) != wanted.end(); }));
    if (shared < most) continue;
    if (shared > most) best.clear();
    most = shared;
    if (best.size() < kMost) best.emplace_back(one.name);
  }
  return best;
}

Error unknown_word(std::string_view word) {
  std::vector<std::string> names = known_software();
  for (const KnownVariable& one : kVariables) names.emplace_back(one.name);
  const std::string upper = to_upper(word);
  std::string hint;
  if (const std::string close = closest_match(upper, names); !close.empty())
    hint = fmt::format("did you mean '{}'?", close);
  else if (const auto near = of_the_same_words(upper); !near.empty())
    hint = fmt::format("the nearest that are known: {}", join(near, ", "));
  else
    hint = fmt::format("gpuwarden env explain shows all; or those of: {}", join(known_software(), ", "));
  return {ErrorCode::invalid_argument, fmt::format("nothing is known about '{}'", printable(word)), std::move(hint)};
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
  for (const std::string& typed : words) {
    const std::string_view word = name_in(typed);
    bool known = false;
    for (const KnownVariable& one : kVariables) {
      if (one.software != to_lower(word) && !same(one.name, word)) continue;
      known = true;
      if (std::ranges::find(result, &one) == result.end()) result.push_back(&one);
    }
    if (!known) return std::unexpected(unknown_word(word.empty() ? std::string_view(typed) : word));
  }
  return result;
}

}  // namespace gpuwarden::knowledge
