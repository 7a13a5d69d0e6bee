// SPDX-License-Identifier: Apache-2.0
// The table of GPUs that `list` prints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/verdicts.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// A GPU's name without its maker.
std::string short_name(std::string_view name);
/// The first lines of a table: of which machine, and whether it is simulated or captured.
std::string snapshot_header(const facts::Snapshot& snapshot, const Style& style);

/// Rows for GPUs, their MIG instances, troubles, who disabled them, leases and (a few of) their processes; no line is
/// wider than the style.
std::string gpu_table(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases, const Style& style,
                      std::span<const facts::Disabling> disabled = {},
                      std::span<const lease::Acceptance> accepted = {});
/// One table of many machines, the host before each GPU; below one that is in trouble its cause. A host that does not
/// answer is a row with its reason.
std::string hosts_table(std::span<const cluster::Node> nodes, const Style& style);
/// A row for each process.
std::string process_table(const facts::Snapshot& snapshot, const Style& style);

}  // namespace gpuwarden::cli
