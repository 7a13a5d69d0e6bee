// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/distributions.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr Distribution kDistributions[] = {
#include "knowledge/distributions.inc"
};

/// "suse" of "suse16".
std::string_view letters_of(std::string_view folder) {
  return folder.substr(0, folder.find_last_not_of("0123456789") + 1);
}

}  // namespace

std::span<const Distribution> distributions() { return kDistributions; }

const Distribution* find_distribution(std::string_view id) {
  const auto* const found = std::ranges::find(kDistributions, id, &Distribution::id);
  return found == std::end(kDistributions) ? nullptr : found;
}

std::string repository_folder(const Distribution& distribution, std::string_view release) {
  std::string number(distribution.whole_number ? release : release.substr(0, release.find('.')));
  std::erase(number, '.');
  // A testing release has no number, and a candidate's is none: neither has a repository.
  if (!parse_integer(number)) return "";
  std::string_view letters;
  for (const std::string_view folder : split_words(distribution.folders)) {
    letters = letters_of(folder);
    if (folder.substr(letters.size()) == number) break;
  }
  return std::string(letters) + number;
}

}  // namespace gpuwarden::knowledge
