// SPDX-License-Identifier: Apache-2.0
// One request on its way through a route, and what routes share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/serve/routes.hpp"

namespace gpuwarden::serve {

struct Call {
  const Sources& sources;
  const Request& request;
  Caller caller;
  Fields path;  ///< what stands for the braces of the route's path

  /// A parameter of the path, or else of the query.
  std::optional<std::string> parameter(std::string_view name) const;
  std::chrono::system_clock::time_point now() const { return sources.clock->wall_now(); }
  /// The posted JSON object; an empty body is an empty one. Fails with invalid_argument.
  Result<nlohmann::json> body() const;
};

/// This machine first, then the others.
std::vector<cluster::Node> all_nodes(const Sources& sources);
cluster::Node own_node(const Sources& sources);

/// The snapshot with command lines as this caller may see them: redacted, or not at all.
facts::Snapshot shown_to(const Call& call, const facts::Snapshot& snapshot);
std::vector<facts::Lease> shown_to(const Call& call, std::vector<facts::Lease> leases);
/// Without secrets; without command lines where this caller may not see them.
std::vector<telemetry::Alert> shown_to(const Call& call, std::vector<telemetry::Alert> alerts);
/// What tells a node's answer from another one: the reading, and what changes between readings.
std::string state_of(const cluster::Node& node);

nlohmann::json error_json(const std::optional<Error>& error);
std::int64_t unix_ms(std::chrono::system_clock::time_point time);

// The handlers, by file.
Response get_metrics(const Call& call);
Response get_health_of_server(const Call& call);
Response get_ready(const Call& call);
Response get_openapi(const Call& call);
Response get_inventory(const Call& call);
Response get_samples(const Call& call);
Response get_processes(const Call& call);
Response get_leases(const Call& call);
Response get_health(const Call& call);
Response get_nodes(const Call& call);
Response get_alerts(const Call& call);
Response get_silences(const Call& call);
Response get_events(const Call& call);
Response get_history(const Call& call);
Response get_usage(const Call& call);
Response get_happenings(const Call& call);
Response get_session(const Call& call);
Response post_login(const Call& call);
Response post_logout(const Call& call);
Response post_acknowledge(const Call& call);
Response post_silence(const Call& call);
Response post_end_silence(const Call& call);
Response post_power_limit(const Call& call);
Response post_signal(const Call& call);
Response post_disable(const Call& call);
Response post_enable(const Call& call);

}  // namespace gpuwarden::serve
