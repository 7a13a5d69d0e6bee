// SPDX-License-Identifier: Apache-2.0
// What callers call GPUs and metrics: as the command line takes it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::serve {

/// The id of a metric by its id, an alias of the command line's ("temp"), its name for Prometheus, or a field of
/// DCGM's. Fails with invalid_argument, with the nearest.
Result<std::string> metric_named(std::string_view name);

/// A GPU by its index, its UUID or the beginning of it, or its PCI bus id. Fails with invalid_argument where several
/// are meant, else with not_found, with the nearest.
Result<Uuid> gpu_named(std::string_view name, const facts::Snapshot& snapshot);

}  // namespace gpuwarden::serve
