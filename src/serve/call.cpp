// SPDX-License-Identifier: Apache-2.0
#include "serve/call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::serve {
namespace {

std::optional<std::string> shown_command(const Call& call, const std::optional<std::string>& command) {
  if (!command || !call.caller.sees_commands) return std::nullopt;
  return call.sources.redact ? call.sources.redact(*command) : *command;
}

}  // namespace

std::optional<std::string> Call::parameter(std::string_view name) const {
  const auto found = std::ranges::find(path, name, &std::pair<std::string, std::string>::first);
  return found == path.end() ? request.parameter(name) : std::optional(found->second);
}

Result<nlohmann::json> Call::body() const {
  if (trim(request.body).empty()) return nlohmann::json::object();
  auto json = nlohmann::json::parse(request.body, nullptr, false);
  if (!json.is_object())
    return fail(ErrorCode::invalid_argument, "what was posted is not a JSON object", "for example {\"reason\": \"\"}");
  return json;
}

std::optional<Error> not_fresh(const Sources& sources) {
  const auto reading = sources.watch->latest();
  if (!reading) return Error{ErrorCode::unavailable, "the GPUs have not been read yet", ""};
  const auto age = sources.clock->now() - (reading->when + reading->took);
  const auto patience = std::max<std::chrono::nanoseconds>(3 * sources.interval, std::chrono::seconds(10));
  if (age <= patience) return std::nullopt;
  return Error{ErrorCode::unavailable,
               fmt::format("the GPUs were read {} ago and do not answer since",
                           format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(age))),
               "gpuwarden doctor"};
}

std::optional<Error> not_ready(const Sources& sources) {
  if (auto problem = not_fresh(sources)) return problem;
  const auto reading = sources.watch->latest();
  if (!reading->snapshot.problem) return std::nullopt;
  const Error& why = *reading->snapshot.problem;
  return Error{why.code, why.message, why.hint};
}

cluster::Node own_node(const Sources& sources) {
  cluster::Node node;
  node.name = sources.host;
  node.reading = sources.watch->latest();
  node.health = sources.watch->health();
  node.alerts = sources.watch->alerts();
  if (sources.leases_problem) node.leases_problem = sources.leases_problem();
  if (sources.disablings_problem) node.health_problem = sources.disablings_problem();
  node.problem = not_fresh(sources);
  if (node.reading) node.seen = node.reading->snapshot.taken_at;
  return node;
}

std::vector<cluster::Node> all_nodes(const Sources& sources) {
  std::vector<cluster::Node> nodes{own_node(sources)};
  if (sources.nodes == nullptr) return nodes;
  for (cluster::Node& node : sources.nodes->nodes()) {
    // This machine may stand in its own list of peers.
    if (node.name != sources.host) nodes.push_back(std::move(node));
  }
  return nodes;
}

facts::Snapshot shown_to(const Call& call, const facts::Snapshot& snapshot) {
  facts::Snapshot shown = snapshot;
  for (facts::GpuRecord& record : shown.gpus) {
    if (!record.processes) continue;
    for (facts::GpuProcess& process : *record.processes) process.command = shown_command(call, process.command);
  }
  return shown;
}

std::vector<facts::Lease> shown_to(const Call& call, std::vector<facts::Lease> leases) {
  for (facts::Lease& lease : leases) {
    for (facts::LeaseHolder& holder : lease.holders) holder.command = shown_command(call, holder.command).value_or("");
  }
  return leases;
}

std::vector<telemetry::Alert> shown_to(const Call& call, std::vector<telemetry::Alert> alerts) {
  for (telemetry::Alert& alert : alerts) {
    const bool quotes = call.sources.quotes_commands && call.sources.quotes_commands(alert.rule);
    if (quotes && !call.caller.sees_commands) alert = without_command(std::move(alert));
    if (call.sources.redact) alert.message = call.sources.redact(alert.message);
  }
  return alerts;
}

telemetry::Alert without_command(telemetry::Alert alert) {
  alert.message = fmt::format("GPU {}: {} (its command line is not shown to you)", alert.gpu.value, alert.condition);
  alert.next_step.clear();
  return alert;
}

std::string state_of(const cluster::Node& node) {
  const auto problem = [](const std::optional<Error>& error) { return error ? std::string_view(error->message) : ""; };
  std::string state = fmt::format("{} {} {} {} {} {}", fmt::ptr(node.reading.get()),
                                  node.reading ? node.reading->when.time_since_epoch().count() : 0, unix_ms(node.seen),
                                  problem(node.problem), problem(node.leases_problem), problem(node.health_problem));
  for (const facts::Health& health : node.health) state += fmt::format(" {}", static_cast<int>(health.state));
  for (const telemetry::Alert& alert : node.alerts)
    state += fmt::format(" {}.{}.{}", alert.id, alert.count, alert.acknowledged_by);
  return state;
}

nlohmann::json error_json(const std::optional<Error>& error) {
  return error ? facts::to_json(*error) : nlohmann::json();
}

std::int64_t unix_ms(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace gpuwarden::serve
