// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gpu_count.hpp"

#include <fmt/format.h>

#include <utility>

#include "gpuwarden/base/text.hpp"
#include "search_parts.hpp"

namespace gpuwarden::planning {

int rank_of(Fit fit) { return fit == Fit::fits ? 0 : fit == Fit::tight ? 1 : 2; }

int rank_of(const Candidate& candidate) { return rank_of(candidate.fit) + (candidate.other_framework ? 2 : 0); }

std::optional<GpuCount> choose_count(const ModelShape& model, std::span<const std::uint32_t> counts, const OnGpus& on) {
  std::optional<GpuCount> best;
  for (const std::uint32_t gpus : counts) {
    auto candidate = on(gpus);
    if (!candidate || candidate->fit == Fit::does_not_fit) continue;
    if (best && rank_of(*candidate) >= rank_of(best->candidate)) continue;
    best = GpuCount{gpus, *std::move(candidate)};
    if (rank_of(best->candidate) <= (model.estimated ? 1 : 0)) break;
  }
  return best;
}

std::optional<GpuCount> count_gpus_for(Workload work, const GpuGroup& group) {
  // The largest micro-batch that fits would make every model need all of a GPU.
  work.fixed_micro_batch = true;
  const ModelFigures figures = figures_of(work.model);
  std::vector<std::uint32_t> counts;
  for (std::uint32_t gpus = 1; gpus <= group.count; gpus = next_count(gpus, kUsualNode)) counts.push_back(gpus);
  GpuGroup some = group;
  return choose_count(work.model, counts, [&](std::uint32_t gpus) {
    some.count = gpus;
    auto best = best_strategy(figures, work, some, kUsualNode);
    return best && best->settings.parallel.gpus() == gpus ? best : std::nullopt;
  });
}

std::vector<std::string> ways_to_fit(const Search& search) {
  std::vector<std::string> ways;
  for (const Change& change : search.changes)
    ways.push_back(fmt::format("{} ({}: {} of each)", change.what, change.candidate.name,
                               format_size(Bytes(static_cast<std::uint64_t>(change.candidate.estimate.expected())))));
  return ways;
}

}  // namespace gpuwarden::planning
