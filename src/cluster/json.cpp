// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::cluster {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using WallTime = std::chrono::system_clock::time_point;

/// What one machine can have of anything; more is no answer of a gpuwarden.
constexpr std::size_t kMostEntries = 65536;

Error wrong(std::string_view key, std::string_view wanted) {
  return {ErrorCode::corrupt, fmt::format("JSON: '{}' should be {}", key, wanted), ""};
}

template <class T>
Json list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value));
  return list;
}

/// The member; nullptr where it is absent or null.
const Json* member(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> text_of(const Json& json, const char* key) {
  const Json* at = member(json, key);
  if (at == nullptr) return std::string();
  if (!at->is_string()) return std::unexpected(wrong(key, "a text"));
  return at->get<std::string>();
}

template <class T>
Result<void> read_list(const Json& json, const char* key, Result<T> (*read)(const Json&), std::vector<T>& values) {
  const Json* at = member(json, key);
  if (at == nullptr) return {};
  if (!at->is_array() || at->size() > kMostEntries) return std::unexpected(wrong(key, "a list"));
  for (const Json& entry : *at) {
    GPUWARDEN_TRY(T value, read(entry));
    values.push_back(std::move(value));
  }
  return {};
}

Result<void> read_problem(const Json& json, const char* key, std::optional<Error>& found) {
  const Json* at = member(json, key);
  if (at == nullptr) return {};
  if (!at->is_object()) return std::unexpected(wrong(key, "an object"));
  Error problem;
  GPUWARDEN_TRY(problem.message, text_of(*at, "message"));
  GPUWARDEN_TRY(problem.hint, text_of(*at, "hint"));
  GPUWARDEN_TRY(const std::string code, text_of(*at, "code"));
  for (int i = 0; i <= static_cast<int>(ErrorCode::failed); ++i) {
    if (to_string(static_cast<ErrorCode>(i)) == code) problem.code = static_cast<ErrorCode>(i);
  }
  found = std::move(problem);
  return {};
}

Result<void> read_times(const Json& json, Node& node, telemetry::Reading& reading) {
  if (const Json* at = member(json, "seen_unix_ms")) {
    if (!at->is_number_integer()) return std::unexpected(wrong("seen_unix_ms", "a time"));
    node.seen = WallTime(milliseconds(at->get<std::int64_t>()));
  }
  if (const Json* at = member(json, "reading_seconds")) {
    const double seconds = at->is_number() ? at->get<double>() : -1;
    if (!(seconds >= 0 && seconds < 1e6)) return std::unexpected(wrong("reading_seconds", "a duration"));
    reading.took = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  }
  return {};
}

/// Each GPU with how it stands for somebody who wants one: no reader has to judge that anew.
Json with_use(const facts::Snapshot& snapshot) {
  Json json = facts::to_json(snapshot);
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i)
    json["gpus"][i]["use"] = facts::key_of(facts::use_of(snapshot.gpus[i]));
  return json;
}

/// Leases, each with whether its GPU does nothing.
Json with_idleness(const telemetry::Reading& reading) {
  Json list = list_of(reading.leases);
  for (const facts::GpuRecord& record : reading.snapshot.gpus) {
    const facts::Lease* lease = facts::find_lease(reading.leases, record);
    if (lease == nullptr) continue;
    list[static_cast<std::size_t>(lease - reading.leases.data())]["idle"] = facts::is_idle_lease(record, lease);
  }
  return list;
}

}  // namespace

Json to_json(const Node& node) {
  const auto told = [](const std::optional<Error>& problem) { return problem ? facts::to_json(*problem) : Json(); };
  Json json{{"name", node.name}, {"url", node.url}, {"alerts", list_of(node.alerts)}};
  json["health"] = node.health_problem && node.health.empty() ? Json() : list_of(node.health);
  json["problem"] = told(node.problem);
  json["leases_problem"] = told(node.leases_problem);
  json["health_problem"] = told(node.health_problem);
  const auto seen = std::chrono::duration_cast<milliseconds>(node.seen.time_since_epoch()).count();
  json["seen_unix_ms"] = seen == 0 ? Json() : Json(seen);
  json["snapshot"] = node.reading ? with_use(node.reading->snapshot) : Json();
  json["leases"] = node.reading ? with_idleness(*node.reading) : Json::array();
  if (node.leases_problem) json["leases"] = Json();
  json["events"] = node.reading ? list_of(node.reading->events) : Json::array();
  json["reading_seconds"] = node.reading ? Json(std::chrono::duration<double>(node.reading->took).count()) : Json();
  return json;
}

Json to_json(std::span<const Node> nodes) {
  Json list = Json::array();
  for (const Node& node : nodes) list.push_back(to_json(node));
  const bool simulated =
      std::ranges::any_of(nodes, [](const Node& node) { return node.reading && node.reading->snapshot.simulated; });
  return facts::answer({{"nodes", std::move(list)}}, simulated);
}

Result<Node> node_from_json(const Json& json) {
  if (!json.is_object()) return std::unexpected(wrong("a node", "an object"));
  Node node;
  telemetry::Reading reading;
  GPUWARDEN_TRY(node.name, text_of(json, "name"));
  GPUWARDEN_TRY(node.url, text_of(json, "url"));
  GPUWARDEN_CHECK(read_problem(json, "problem", node.problem));
  GPUWARDEN_CHECK(read_problem(json, "leases_problem", node.leases_problem));
  GPUWARDEN_CHECK(read_problem(json, "health_problem", node.health_problem));
  GPUWARDEN_CHECK(read_times(json, node, reading));
  GPUWARDEN_CHECK(read_list(json, "health", facts::health_from_json, node.health));
  GPUWARDEN_CHECK(read_list(json, "alerts", telemetry::alert_from_json, node.alerts));
  GPUWARDEN_CHECK(read_list(json, "leases", facts::lease_from_json, reading.leases));
  GPUWARDEN_CHECK(read_list(json, "events", facts::gpu_event_from_json, reading.events));
  const Json* snapshot = member(json, "snapshot");
  if (snapshot == nullptr) return node;
  GPUWARDEN_TRY(reading.snapshot, facts::snapshot_from_json(*snapshot));
  node.reading = std::make_shared<const telemetry::Reading>(std::move(reading));
  return node;
}

}  // namespace gpuwarden::cluster
