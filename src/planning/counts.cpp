// SPDX-License-Identifier: Apache-2.0
// On how many GPUs something fits.
#include <algorithm>
#include <array>

#include "search_parts.hpp"

namespace gpuwarden::planning {

namespace {

/// As far as this beyond the fewest GPUs on which something is tight, more are tried for room.
constexpr std::uint32_t kRoomTried = 4;
/// Up to so many GPUs every smaller number is tried, beyond them whole nodes.
constexpr std::uint32_t kEveryCount = 64;

/// What the strategies for one count come to.
struct Verdicts {
  bool own_fits = false;
  bool own_tight = false;
  bool other_fits = false;
  bool any = false;

  void add(const Candidate& candidate, Fit fit) {
    if (fit == Fit::does_not_fit) return;
    any = true;
    const bool room = fit == Fit::fits;
    if (candidate.other_framework)
      other_fits |= room;
    else
      (room ? own_fits : own_tight) = true;
  }
  /// Whether what better() puts first has room to spare.
  bool room() const { return own_fits || (other_fits && !own_tight); }
};

/// One sample at a time, or all of a step's at once: then no gradients are kept from one micro-batch to the next.
/// 0: no more.
std::array<std::uint64_t, 2> samples_to_try(const SearchRequest& request, const Settings& settings) {
  const bool free = request.micro_batch == 0 && settings.trains();
  const std::uint32_t fixed = request.micro_batch > 0 ? request.micro_batch : settings.micro_batch;
  const std::uint64_t share = share_of(request, settings);
  const bool at_once = free && share > 1 && share <= request.largest_micro_batch;
  return {free ? 1 : fixed, at_once ? share : 0};
}

bool fits_count(const ModelFigures& model, SearchRequest request, std::uint32_t gpus, bool with_room,
                std::size_t& searched) {
  request.gpus = gpus;
  Verdicts verdicts;
  for (Candidate& candidate : strategies(model, request)) {
    for (const std::uint64_t samples : samples_to_try(request, candidate.settings)) {
      if (samples == 0) continue;
      ++searched;
      const Estimate need = need_at(model, request, candidate.settings, static_cast<std::uint32_t>(samples));
      verdicts.add(candidate, judge(need, request.gpu, candidate.settings.sequence));
      if (with_room ? verdicts.own_fits : verdicts.any) return true;
    }
  }
  return with_room && verdicts.room();
}

/// Which numbers of GPUs are tried, and for what.
struct Counts {
  std::uint32_t first = 1;
  std::uint32_t most = 0;
  std::uint32_t known = 0;  ///< known not to do
  bool with_room = false;
};

/// The first of the counts that does.
std::optional<std::uint32_t> scan_counts(const ModelFigures& model, const SearchRequest& request, const Counts& counts,
                                         std::size_t& searched) {
  for (std::uint32_t gpus = counts.first; gpus <= counts.most; gpus = next_count(gpus, request.gpus_per_node)) {
    if (gpus != counts.known && fits_count(model, request, gpus, counts.with_room, searched)) return gpus;
  }
  return {};
}

}  // namespace

std::uint32_t next_count(std::uint32_t gpus, std::uint32_t node) {
  constexpr std::uint32_t kExact = 1024;
  if (gpus < node) return gpus + 1;
  const std::uint32_t nodes = gpus < kExact ? 1 : std::max(1U, gpus / 16 / node);
  return gpus + nodes * node;
}

bool anything_fits(const ModelFigures& model, const SearchRequest& request, std::uint32_t gpus, std::size_t& searched) {
  return fits_count(model, request, gpus, false, searched);
}

void count_gpus(const ModelFigures& model, const SearchRequest& request, Search& search) {
  const bool fits = search.recommended.has_value();
  const std::uint32_t most = fits ? request.gpus - 1 : kMostGpusSearched;
  const std::uint32_t known = fits ? 0 : request.gpus;
  search.smallest_gpus = scan_counts(model, request, {.most = most, .known = known}, search.searched);
  if (fits && !search.smallest_gpus) search.smallest_gpus = request.gpus;
  if (!search.smallest_gpus) return;
  const std::uint32_t smallest = *search.smallest_gpus;
  const bool room = fits && search.candidates.front().fit == Fit::fits;
  const std::uint64_t far = std::uint64_t{kRoomTried} * std::max(smallest, request.gpus_per_node);
  const std::uint64_t last = room ? request.gpus : std::min<std::uint64_t>(kMostGpusSearched, far);
  const Counts roomy{.first = smallest, .most = static_cast<std::uint32_t>(last), .known = known, .with_room = true};
  search.roomy_gpus = scan_counts(model, request, roomy, search.searched);
  if (room && !search.roomy_gpus) search.roomy_gpus = request.gpus;
}

std::vector<std::uint32_t> fewer_counts(const SearchRequest& request) {
  std::vector<std::uint32_t> counts;
  const std::uint32_t all = request.gpus;
  const std::uint32_t node = request.gpus_per_node;
  for (std::uint32_t gpus = all - 1; gpus > 0; --gpus) {
    if (all <= kEveryCount || gpus < node || gpus % node == 0) counts.push_back(gpus);
  }
  // As many copies of what does not train as there is room for leave none idle.
  if (!request.settings.trains())
    std::ranges::stable_partition(counts, [&](std::uint32_t gpus) { return all % gpus == 0; });
  return counts;
}

std::optional<std::uint32_t> fewest_gpus(const ModelFigures& model, const SearchRequest& request, std::uint32_t most) {
  std::size_t searched = 0;
  if (request.gpus_per_node == 0 || !check(request.settings)) return {};
  return scan_counts(model, request, {.most = std::min(most, kMostGpusSearched)}, searched);
}

}  // namespace gpuwarden::planning
