// SPDX-License-Identifier: Apache-2.0
// How many GPUs a model is given: one answer for select, compat and doctor.
//
//     auto group = gpus_named("64xh100");
//     auto count = count_gpus_for(work, *group);  // count->gpus of them are enough
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/planning/answer.hpp"

namespace gpuwarden::planning {

/// GPUs of a machine that are taken to be joined, whatever the machine has.
inline constexpr std::uint32_t kUsualNode = 8;

/// The smaller, the better: with room to spare, tightly, not at all.
int rank_of(Fit fit);
/// What another framework would have to be taken for is a last resort, however well it fits.
int rank_of(const Candidate& candidate);

struct GpuCount {
  std::uint32_t gpus = 0;
  Candidate candidate;
};
/// What the work comes to on so many GPUs; empty: it is not to be had on so many.
using OnGpus = std::function<std::optional<Candidate>(std::uint32_t gpus)>;

/// The first of the counts on which the model fits with room to spare; where there is none, the first of those on which
/// it fits best. The wide range of a guessed shape is no reason for more GPUs than are expected to do. Empty: it fits
/// on none of them.
std::optional<GpuCount> choose_count(const ModelShape& model, std::span<const std::uint32_t> counts, const OnGpus& on);

/// The same for idle GPUs of one kind, of 1, 2, ... up to the group's count, beyond a node of 8 whole nodes. No count
/// is taken of which the plan leaves GPUs idle.
std::optional<GpuCount> count_gpus_for(Workload work, const GpuGroup& group);

/// What would make it fit, cheapest first: the changes of a search in which nothing does, a line each.
std::vector<std::string> ways_to_fit(const Search& search);

}  // namespace gpuwarden::planning
