// SPDX-License-Identifier: Apache-2.0
// What plan() is made of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpuwarden/planning/search.hpp"

namespace gpuwarden::planning {

inline constexpr std::uint32_t kMostGpusSearched = 65536;

/// Samples of an optimizer step for each data-parallel rank, rounded up; 0: free.
std::uint64_t share_of(const SearchRequest& request, const Settings& settings);

/// Memory of a candidate at one micro-batch, which is noted in `settings`; a refused one needs more than anything has.
Estimate need_at(const ModelFigures& model, const SearchRequest& request, Settings& settings,
                 std::uint32_t micro_batch);

/// Whether any strategy fits so many GPUs, or is tight on them.
bool anything_fits(const ModelFigures& model, const SearchRequest& request, std::uint32_t gpus, std::size_t& searched);

/// The number of GPUs to try behind `gpus`: every one up to a node, then whole nodes; from 1,024 GPUs on in steps of a
/// sixteenth, so that small nodes take no longer.
std::uint32_t next_count(std::uint32_t gpus, std::uint32_t node);

/// Fills in the fewest GPUs, with and without room. What is recommended and the candidates are there.
void count_gpus(const ModelFigures& model, const SearchRequest& request, Search& search);

/// Fewer GPUs than the request's, the most desirable number first: the most; of what does not train, divisors, so that
/// copies leave none idle. All of them up to 64, beyond that whole nodes and what is less than one.
std::vector<std::uint32_t> fewer_counts(const SearchRequest& request);

/// Rough seconds for a token of all GPUs together.
double seconds_per_token(const ModelFigures& model, const SearchRequest& request, const Settings& settings);

/// Finds the largest micro-batch of a candidate that fits (or judges the fixed one), fills in estimate, fit and cost.
/// Counts what it computed.
void settle(const ModelFigures& model, const SearchRequest& request, Candidate& candidate, std::size_t& searched);

/// The best of the request's candidates; empty: it has none.
std::optional<Candidate> best_of(const ModelFigures& model, const SearchRequest& request, std::size_t& searched);
/// Whether `a` is to be preferred: what fits or is tight, of the settings' own framework first, then by fit, whether it
/// meets the global batch, and cost; of what does not fit, that which needs less.
bool better(const Candidate& a, const Candidate& b);

/// Changes that make the request fit, cheapest first: at most four, and more GPUs where `smallest` says how many.
std::vector<Change> changes_for(const ModelFigures& model, const SearchRequest& request,
                                std::optional<std::uint32_t> smallest, std::size_t& searched);

}  // namespace gpuwarden::planning
