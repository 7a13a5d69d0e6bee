// SPDX-License-Identifier: Apache-2.0
// Nodes as JSON: what `/api/v1/nodes` of a server answers and what another server reads from it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"

namespace gpuwarden::cluster {

/// {"name", "url", "problem", "seen_unix_ms", "snapshot", "leases", "events", "reading_seconds", "health", "alerts"};
/// without a reading `snapshot` is null. What is
/// not known of leases and health is null, with a reason in "leases_problem" and "health_problem". A node with an empty
/// `url` is the answering machine itself. `seen_unix_ms` is null where it was never seen.
nlohmann::json to_json(const Node& node);
/// {"schema": 1, "nodes": [...]}
nlohmann::json to_json(std::span<const Node> nodes);

/// Reads back what to_json wrote; more keys are no harm, null and absent are unknown. Fails with corrupt, naming the
/// key.
Result<Node> node_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::cluster
