// SPDX-License-Identifier: Apache-2.0
// Load that has ended and is reported all the same. A driver tells the utilization of its past sample period, which
// nvml.h (nvmlUtilization_t) gives as up to a second: what ended within a period is in that period's figure, which is
// told until the next one is over.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::machine {

/// After so long what is reported is no past load any more: two sample periods.
constexpr std::chrono::milliseconds kPastLoad{2000};

/// The snapshot without load that may be past (facts::has_load_alone); with `devices`, on these alone.
facts::Snapshot without_past_load(facts::Snapshot snapshot,
                                  const std::optional<std::vector<Uuid>>& devices = std::nullopt);

/// Whether the decision on these inputs would have more devices if load that may be past were left out: a moment later
/// it may be gone. `select` is how the decision came about.
bool past_load_counts(const placement::Decision& decision, const placement::Inputs& inputs,
                      const std::function<Result<placement::Decision>(const placement::Inputs&)>& select);

}  // namespace gpuwarden::machine
