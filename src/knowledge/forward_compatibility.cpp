// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/forward_compatibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

/// From which driver branches an image of NVIDIA's starts by its cuda-compat, beside those that have its CUDA.
struct CompatRow {
  Version cuda;  ///< MAJOR.MINOR
  std::string_view branches;
};

/// source: NVIDIA_REQUIRE_CUDA of NVIDIA's images nvidia/cuda:11.8.0 to 13.3.0, each "driver>=535,driver<536" of it a
/// branch, as public files quote it: kserve/kserve (13.3.0, "replicates nvidia/cuda:13.3.0-base"), rapidsai/deployment
/// custom-docker (13.1.1), vllm-project/vllm reports of vllm/vllm-openai (12.8, 12.9, 13.0), gitlab.com/nvidia/
/// container-images/cuda dist/12.4.1, 12.1.0 and 11.8.0.
constexpr auto kCompat = std::to_array<CompatRow>({{{11, 8}, "450;470;510;515"},
                                                   {{12, 1}, "450;470;510;515;525"},
                                                   {{12, 4}, "470;525;535"},
                                                   {{12, 8}, "470;535;550;560;565"},
                                                   {{12, 9}, "535;550;560;565;570"},
                                                   {{13, 0}, "535;550;565;570;575"},
                                                   {{13, 1}, "535;550;570;575;580"},
                                                   {{13, 2}, "535;570;580;590"},
                                                   {{13, 3}, "535;550;560;565;570;580"}});

bool has_word(std::string_view text, std::string_view word) {
  return std::ranges::any_of(split_words(text), [&](std::string_view one) { return one == word; });
}

}  // namespace

CompatServes compat_serves(std::string_view gpu_name) {
  for (const std::string_view consumer : {"GeForce", "TITAN", "GTX", "GB10"}) {
    if (gpu_name.contains(consumer)) return CompatServes::no;
  }
  // Cards for workstations; "Quadro RTX 6000" and "NVIDIA RTX A6000" are sold in certified servers too.
  for (const std::string_view workstation : {"RTX", "Quadro"}) {
    if (gpu_name.contains(workstation)) return CompatServes::certified_servers_only;
  }
  for (const std::string_view small : {"T400", "T600", "T1000", "T1200", "T500", "T550"}) {
    if (has_word(gpu_name, small)) return CompatServes::no;
  }
  return CompatServes::yes;
}

std::vector<int> compat_branches(const Version& cuda) {
  std::vector<int> branches;
  const auto* const row = std::ranges::find(kCompat, release_of(cuda), &CompatRow::cuda);
  if (row == kCompat.end()) return branches;
  for (const std::string_view branch : split(row->branches, ';'))
    branches.push_back(static_cast<int>(parse_integer(branch).value_or(0)));
  return branches;
}

std::optional<bool> compat_serves_branch(const Version& cuda, int branch) {
  const auto branches = compat_branches(cuda);
  if (branches.empty()) {
    // An old branch that the release before left out does not come back in a later one.
    const auto later = std::ranges::upper_bound(kCompat, release_of(cuda), {}, &CompatRow::cuda);
    if (later == kCompat.begin() || std::prev(later)->cuda.major != cuda.major) return std::nullopt;
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
