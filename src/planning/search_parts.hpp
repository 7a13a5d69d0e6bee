// SPDX-License-Identifier: Apache-2.0
// What plan() is made of.
#pragma once

#include "gpuwarden/planning/search.hpp"

namespace gpuwarden::planning {

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
