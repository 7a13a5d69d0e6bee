// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/memory_status.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/memory/fragmentation.hpp"

namespace gpuwarden::pools {

using facts::GpuProcess;
using facts::GpuRecord;
using Json = nlohmann::json;

namespace {

/// Of each process what has to do with memory.
Json processes_in(const Json& processes) {
  Json rows = Json::array();
  for (const Json& process : processes) {
    Json row;
    for (const char* key : {"pid", "type", "user", "command", "memory_bytes"}) row[key] = process.value(key, Json());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::optional<Bytes> unaccounted_memory(const GpuRecord& record) {
  if (!record.processes || !record.sample.memory_used) return std::nullopt;
  Bytes listed(0);
  for (const GpuProcess& process : *record.processes) {
    if (!process.memory && process.listed) return std::nullopt;
    listed += process.memory.value_or(Bytes(0));
  }
  return listed < *record.sample.memory_used ? *record.sample.memory_used - listed : Bytes(0);
}

Pools pools_on(const GpuRecord& record, const Pools& pools) {
  // CUDA has the same prefix for all, NVML another one for MIG instances.
  const auto bare = [](const Uuid& uuid) { return std::string_view(uuid.value).substr(uuid.value.find('-') + 1); };
  Pools found;
  std::ranges::copy_if(pools, std::back_inserter(found), [&](const PublishedPool& pool) {
    return bare(record.gpu.uuid) == bare(pool.gpu) ||
           std::ranges::any_of(record.mig_devices,
                               [&](const facts::MigDevice& part) { return bare(part.uuid) == bare(pool.gpu); });
  });
  return found;
}

std::vector<Holding> holdings_on(const GpuRecord& record, const Pools& pools) {
  std::vector<Holding> all;
  for (const GpuProcess& process : record.processes.value_or(std::vector<GpuProcess>{})) {
    // Who has only the device file open holds no memory that is known of.
    if (process.listed || process.memory) all.push_back({process, {}});
  }
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const Holding& one) { return one.process.memory.value_or(Bytes(0)); });
  for (const PublishedPool& pool : pools_on(record, pools)) {
    auto holder = std::ranges::find_if(all, [&](const Holding& one) { return one.process.pid == pool.process.pid; });
    if (holder == all.end()) holder = all.insert(holder, Holding{{.pid = pool.process.pid}, {}});
    holder->pools.push_back(pool);
  }
  return all;
}

Json to_json(const PublishedPool& pool) {
  Json json{{"pid", pool.process.pid.value}, {"strategy", pool.strategy}};
  for (const PoolFigure& figure : pool_figures()) {
    const auto value = figure.get(pool);
    json[std::string(figure.key)] = value ? Json(*value) : Json();
  }
  json["external_fragmentation"] = Json();
  if (pool.largest_free) json["external_fragmentation"] = memory::external_fragmentation(pool.free, *pool.largest_free);
  return json;
}

Json to_json(const MemoryStatus& status) {
  const facts::Snapshot& snapshot = status.snapshot;
  const Json facts = facts::to_json(snapshot);
  Json json{{"gpus", Json::array()}};
  for (const char* key : {"schema", "simulated", "fleet", "source", "host", "time_unix_ms", "problem"}) {
    if (facts.contains(key)) json[key] = facts[key];
  }
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i) {
    const Json& gpu = facts["gpus"][i];
    Json one{{"processes", Json()}};
    for (const char* key : {"index", "uuid", "name", "state", "memory"}) one[key] = gpu[key];
    const auto rest = unaccounted_memory(snapshot.gpus[i]);
    one["unaccounted_bytes"] = rest ? Json(rest->value) : Json();
    if (gpu["processes"].is_array()) one["processes"] = processes_in(gpu["processes"]);
    one["pools"] = Json::array();
    for (const PublishedPool& pool : pools_on(snapshot.gpus[i], status.pools)) one["pools"].push_back(to_json(pool));
    json["gpus"].push_back(std::move(one));
  }
  return json;
}

}  // namespace gpuwarden::pools
