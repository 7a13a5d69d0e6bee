// SPDX-License-Identifier: Apache-2.0
// Which PyTorch, and which vLLM, for a place.
#pragma once

#include "gpuwarden/compat/answer.hpp"

namespace gpuwarden::compat {

/// Every wheel of PyTorch that is known, with how it does at the place.
std::vector<Wheel> all_wheels(const Asked& asked);

/// Whether one of them runs.
bool any_runs(const std::vector<Wheel>& wheels);

/// The driver first, where it has to be another one. Adds its sources to the verdict.
Recommendation recommend(const Asked& asked, Verdict& verdict);

/// What keeps the GPUs of the place from working at all.
std::optional<Obstacle> gpu_obstacle(const Asked& asked);

}  // namespace gpuwarden::compat
