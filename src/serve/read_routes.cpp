// SPDX-License-Identifier: Apache-2.0
// Answers about what is now: metrics, nodes, GPUs, processes, leases, health.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/json.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "serve/call.hpp"
#include "serve/encoding.hpp"
#include "serve/names.hpp"

namespace gpuwarden::serve {
namespace {

using Json = nlohmann::json;

constexpr auto kUsualMetrics =
    std::to_array<std::string_view>({"utilization", "memory_utilization", "memory_used", "memory_total", "temperature",
                                     "power", "power_limit", "clock_sm", "fan_speed"});

Json document() { return facts::document({}); }

/// What nodes have beside cluster::to_json: the GPUs that there should be, and what was counted.
void add_counts(Json& json, const Counts& counts) {
  json["expected"] = counts.expected;
  Json xids = Json::array();
  for (const XidCount& count : counts.xids) {
    xids.push_back({{"uuid", count.gpu.value},
                    {"index", count.index ? Json(count.index->value) : Json()},
                    {"code", count.xid},
                    {"count", count.count},
                    {"time_unix_ms", unix_ms(count.last)}});
  }
  json["xids"] = std::move(xids);
}

/// What an overview shows of a GPU.
constexpr auto kBriefKeys = std::to_array<std::string_view>(
    {"cause", "index", "memory", "mig", "name", "next_step", "pci_bus_id", "power_limit_watts", "power_watts",
     "processes", "profiling", "state", "temperature_celsius", "temperatures", "throttle_reasons", "use", "utilization",
     "uuid"});

/// Leaves of each GPU what an overview shows; of the one that is asked for, all.
void make_brief(Json& node, std::string_view whole) {
  if (!node["snapshot"].is_object()) return;
  for (Json& gpu : node["snapshot"]["gpus"]) {
    if (!whole.empty() && gpu.value("uuid", "") == whole) continue;
    Json brief = Json::object();
    for (const std::string_view key : kBriefKeys) {
      if (const auto found = gpu.find(key); found != gpu.end()) brief[std::string(key)] = std::move(*found);
    }
    gpu = std::move(brief);
  }
}

/// How much of each GPU is asked for.
struct Extent {
  bool brief = false;
  std::string whole;  ///< the UUID of a GPU that is told whole all the same
};

bool has_gpu(const cluster::Node& node, const std::string& uuid) {
  return !uuid.empty() && node.reading && std::ranges::any_of(node.reading->snapshot.gpus, [&](const auto& record) {
    return record.gpu.uuid.value == uuid;
  });
}

std::string text_of(const Call& call, cluster::Node node, const Counts* counts, const Extent& extent) {
  node.alerts = shown_to(call, std::move(node.alerts));
  if (node.reading) {
    auto shown = std::make_shared<telemetry::Reading>(*node.reading);
    shown->snapshot = shown_to(call, node.reading->snapshot);
    shown->leases = shown_to(call, node.reading->leases);
    node.reading = std::move(shown);
  }
  Json json = cluster::to_json(node);
  if (counts != nullptr) add_counts(json, *counts);
  if (extent.brief) make_brief(json, extent.whole);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The metrics that are asked for, by whatever name they have; fails with the nearest known one.
struct Asked {
  std::vector<const facts::Metric*> metrics;
  std::vector<const telemetry::DerivedMetric*> derived;
};
Result<Asked> asked_metrics(const std::optional<std::string>& list) {
  Asked asked;
  if (list && *list == "all") {
    for (const facts::Metric& metric : facts::metrics()) asked.metrics.push_back(&metric);
    for (const telemetry::DerivedMetric& metric : telemetry::derived_metrics()) asked.derived.push_back(&metric);
    return asked;
  }
  std::vector<std::string_view> ids(kUsualMetrics.begin(), kUsualMetrics.end());
  if (list && !list->empty()) ids = split(*list, ',');
  for (const std::string_view id : ids) {
    GPUWARDEN_TRY(const std::string meant, metric_named(trim(id)));
    if (const facts::Metric* metric = facts::find_metric(meant)) {
      asked.metrics.push_back(metric);
    } else if (const telemetry::DerivedMetric* derived = telemetry::find_derived_metric(meant)) {
      asked.derived.push_back(derived);
    }
  }
  return asked;
}

Json values_of(const facts::GpuRecord& record, const Asked& asked) {
  const auto value = [](const std::optional<double>& number) { return number ? Json(*number) : Json(); };
  Json values = Json::object();
  for (const facts::Metric* metric : asked.metrics)
    values[std::string(metric->id)] = value(facts::value_of(*metric, record.sample));
  for (const telemetry::DerivedMetric* metric : asked.derived)
    values[std::string(metric->id)] = value(metric->value(record));
  return values;
}

Json health_of(const cluster::Node& node, const facts::GpuRecord& record) {
  const auto found = std::ranges::find(node.health, facts::identity_of(record), &facts::Health::uuid);
  return found == node.health.end() ? Json() : Json(facts::to_string(found->state));
}

Json samples_of(const cluster::Node& node, const Asked& asked) {
  Json gpus = Json::array();
  const bool shown = node.reading && !node.problem;
  for (std::size_t i = 0; shown && i < node.reading->snapshot.gpus.size(); ++i) {
    const facts::GpuRecord& record = node.reading->snapshot.gpus[i];
    gpus.push_back({{"index", record.gpu.index.value},
                    {"uuid", record.gpu.uuid.value},
                    {"state", facts::to_string(record.state)},
                    {"health", health_of(node, record)},
                    {"values", values_of(record, asked)}});
  }
  return {{"name", node.name},
          {"problem", error_json(node.problem)},
          {"time_unix_ms", node.reading ? Json(unix_ms(node.reading->snapshot.taken_at)) : Json()},
          {"simulated", node.reading && node.reading->snapshot.simulated},
          {"gpus", std::move(gpus)}};
}

NodeMetrics metrics_of(cluster::Node node, bool several) {
  NodeMetrics metrics{.name = several ? node.name : "",
                      .reading = node.problem ? nullptr : std::move(node.reading),
                      .health = std::move(node.health),
                      .leases_known = !node.leases_problem,
                      .alerts = std::move(node.alerts)};
  return metrics;
}

Response no_reading(const Error& error) {
  return text_answer(503, error.message + "\n" + (error.hint.empty() ? "" : "hint: " + error.hint + "\n"));
}

}  // namespace

Response get_metrics(const Call& call) {
  const Sources& sources = call.sources;
  std::vector<cluster::Node> nodes = all_nodes(sources);
  const bool several = sources.nodes != nullptr;
  const auto counts = sources.tally->latest();
  const Format format = format_for(call.request.header("accept"), sources.metrics.dialect);
  std::string state = fmt::format("{}", fmt::ptr(counts.get()));
  for (const cluster::Node& node : nodes) state += state_of(node);
  const auto render = [&] {
    std::vector<NodeMetrics> metrics;
    for (cluster::Node& node : nodes) metrics.push_back(metrics_of(std::move(node), several));
    metrics.front().counts = counts;
    return render_metrics(metrics, sources.metrics, format);
  };
  Response response;
  response.type = content_type_of(format);
  // One reading is written once, however many ask.
  response.body = sources.texts->get(response.type, state, render);
  if (!takes_gzip(call.request.header("accept-encoding"))) return response;
  std::string packed = sources.texts->get(response.type + " gzip", state, [&response] { return gzip(response.body); });
  if (packed.empty()) return response;
  response.body = std::move(packed);
  response.headers.emplace_back("Content-Encoding", "gzip");
  return response;
}

Response get_health_of_server(const Call& call) {
  const auto problem = not_ready(call.sources);
  // While the first reading is made the server is well, only not ready yet.
  if (problem && call.sources.watch->latest()) return no_reading(*problem);
  return text_answer(200, "healthy\n");
}

Response get_ready(const Call& call) {
  if (const auto problem = not_ready(call.sources)) return no_reading(*problem);
  return text_answer(200, "ready\n");
}

Response get_openapi(const Call& call) { return json_answer(openapi(call.sources.metrics.version)); }

Response get_inventory(const Call& call) {
  if (const auto problem = not_fresh(call.sources)) return error_answer(*problem);
  const auto reading = call.sources.watch->latest();
  const auto disabled = call.sources.disabled ? call.sources.disabled() : std::vector<facts::Disabling>{};
  return json_answer(lease::to_json(shown_to(call, reading->snapshot), shown_to(call, reading->leases), disabled));
}

Response get_samples(const Call& call) {
  const auto asked = asked_metrics(call.parameter("metrics"));
  if (!asked) return error_answer(asked.error());
  const auto wanted = call.parameter("node");
  Json nodes = Json::array();
  for (const cluster::Node& node : all_nodes(call.sources)) {
    if (!wanted || node.name == *wanted) nodes.push_back(samples_of(node, *asked));
  }
  Json answer = document();
  answer["nodes"] = std::move(nodes);
  return json_answer(answer);
}

Response get_processes(const Call& call) {
  Json list = Json::array();
  for (const cluster::Node& node : all_nodes(call.sources)) {
    if (!node.reading || node.problem) continue;
    for (const facts::GpuRecord& record : shown_to(call, node.reading->snapshot).gpus) {
      if (!record.processes) continue;
      for (const facts::GpuProcess& process : *record.processes) {
        Json entry = facts::to_json(process);
        entry["node"] = node.name;
        entry["gpu"] = record.gpu.index.value;
        entry["uuid"] = record.gpu.uuid.value;
        list.push_back(std::move(entry));
      }
    }
  }
  Json answer = document();
  answer["processes"] = std::move(list);
  return json_answer(answer);
}

Response get_leases(const Call& call) {
  Json list = Json::array();
  Json unknown = Json::array();
  for (const cluster::Node& node : all_nodes(call.sources)) {
    const auto& problem = node.problem ? node.problem : node.leases_problem;
    if (problem) unknown.push_back({{"node", node.name}, {"problem", error_json(problem)}});
    if (!node.reading || problem) continue;
    for (const facts::Lease& lease : shown_to(call, node.reading->leases)) {
      Json entry = facts::to_json(lease);
      entry["node"] = node.name;
      list.push_back(std::move(entry));
    }
  }
  Json answer = document();
  answer["leases"] = std::move(list);
  answer["unknown"] = std::move(unknown);
  return json_answer(answer);
}

Response get_health(const Call& call) {
  Json list = Json::array();
  Json unknown = Json::array();
  for (const cluster::Node& node : all_nodes(call.sources)) {
    if (node.health_problem) unknown.push_back({{"node", node.name}, {"problem", error_json(node.health_problem)}});
    // Of this machine `problem` tells how old it is; another's health is unknown while it does not answer.
    if (node.problem && !node.url.empty()) continue;
    for (const facts::Health& health : node.health) {
      Json entry = facts::to_json(health);
      entry["node"] = node.name;
      list.push_back(std::move(entry));
    }
  }
  Json answer = document();
  const auto problem = not_ready(call.sources);
  answer["ready"] = !problem;
  answer["problem"] = error_json(problem);
  answer["gpus"] = std::move(list);
  answer["unknown"] = std::move(unknown);
  return json_answer(answer);
}

Response get_nodes(const Call& call) {
  const bool own = call.parameter("own").value_or("") == "true";
  std::vector<cluster::Node> nodes = own ? std::vector{own_node(call.sources)} : all_nodes(call.sources);
  const bool brief = call.parameter("brief").value_or("") == "true";
  const std::string whole = brief ? call.parameter("gpu").value_or("") : std::string();
  // Put together as text: a cluster's answer is megabytes, of which only what is new is written anew. A node has a few
  // texts: with command lines and without, whole, brief, and brief but for a GPU.
  if (!own) call.sources.texts->bound(8 * nodes.size() + 8);
  const auto counts = call.sources.tally->latest();
  std::string text = fmt::format("{{\"schema\":{},\"nodes\":[", facts::kJsonSchema);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const cluster::Node& node = nodes[i];
    const Extent extent{brief, has_gpu(node, whole) ? whole : std::string()};
    const Counts* counted = i == 0 ? counts.get() : nullptr;
    const std::string name =
        fmt::format("{} {} {} {}", node.url, call.caller.sees_commands, extent.brief, extent.whole);
    const std::string state = fmt::format("{} {}", fmt::ptr(counted), state_of(node));
    if (i > 0) text += ',';
    text += call.sources.texts->get(name, state, [&] { return text_of(call, node, counted, extent); });
  }
  text += "]}\n";
  Response response;
  response.type = "application/json";
  response.body = std::move(text);
  return response;
}

}  // namespace gpuwarden::serve
