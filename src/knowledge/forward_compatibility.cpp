// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/forward_compatibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

/// From which driver branches an image of NVIDIA's starts by its cuda-compat, beside those that have its CUDA.
struct CompatRow {
  Version cuda;  ///< MAJOR.MINOR
  std::string_view branches;
  std::string_view source;
};

constexpr CompatRow kCompat[] = {
#include "knowledge/cuda_compat.inc"
};

/// A word of the names of GPUs that cuda-compat does not serve, or not everywhere; "RTX*" is the beginning of one.
struct CompatGpus {
  std::string_view word;
  CompatServes serves;
  std::string_view source;
};
constexpr CompatGpus kGpus[] = {
#include "knowledge/cuda_compat_gpus.inc"
};

bool has_word(std::string_view text, std::string_view wanted) {
  const bool beginning = wanted.ends_with('*');
  if (beginning) wanted.remove_suffix(1);
  return std::ranges::any_of(split_words(text),
                             [&](std::string_view one) { return beginning ? one.starts_with(wanted) : one == wanted; });
}

}  // namespace

CompatServes compat_serves(std::string_view gpu_name) {
  const auto* const found =
      std::ranges::find_if(kGpus, [&](const CompatGpus& one) { return has_word(gpu_name, one.word); });
  return found == std::end(kGpus) ? CompatServes::yes : found->serves;
}

std::vector<int> compat_branches(const Version& cuda) {
  std::vector<int> branches;
  const auto* const row = std::ranges::find(kCompat, release_of(cuda), &CompatRow::cuda);
  if (row == std::end(kCompat)) return branches;
  for (const std::string_view branch : split(row->branches, ';'))
    branches.push_back(static_cast<int>(parse_integer(branch).value_or(0)));
  return branches;
}

std::optional<bool> compat_serves_branch(const Version& cuda, int branch) {
  const auto branches = compat_branches(cuda);
  if (branches.empty()) {
    // An old branch that the release before left out does not come back in a later one.
    const auto later = std::ranges::upper_bound(kCompat, release_of(cuda), {}, &CompatRow::cuda);
    if (later == std::begin(kCompat) || std::prev(later)->cuda.major != cuda.major) return std::nullopt;
    const auto before = compat_branches(std::prev(later)->cuda);
    const bool left_out = branch < std::ranges::max(before) && std::ranges::find(before, branch) == before.end();
    return left_out ? std::optional(false) : std::nullopt;
  }
  return std::ranges::find(branches, branch) != branches.end();
}

std::string compat_package(const Version& cuda) { return fmt::format("cuda-compat-{}-{}", cuda.major, cuda.minor); }

std::string compat_folder(const Version& cuda) {
  return fmt::format("/usr/local/cuda-{}.{}/compat", cuda.major, cuda.minor);
}

}  // namespace gpuwarden::knowledge
