// SPDX-License-Identifier: Apache-2.0
#include "memory/replay_json.hpp"

#include <nlohmann/json.hpp>

namespace gpuwarden::cli {
namespace {

using Json = nlohmann::json;
using memtrace::external_fragmentation;
using memtrace::internal_fragmentation;
using memtrace::Replay;

Json of_samples(const Replay& replay) {
  Json samples = Json::array();
  for (const auto& sample : replay.samples)
    samples.push_back({{"operation", sample.operation},
                       {"live_bytes", sample.live.value},
                       {"reserved_bytes", sample.reserved.value},
                       {"largest_free_bytes", sample.largest_free.value}});
  return samples;
}

Json of_replay(const Replay& replay) {
  Json json{{"strategy", replay.strategy},
            {"operations", replay.operations},
            {"ns_per_operation", replay.nanoseconds ? Json(*replay.nanoseconds) : Json()},
            {"ns_per_operation_first_time", replay.first_nanoseconds ? Json(*replay.first_nanoseconds) : Json()},
            {"rounds", replay.rounds},
            {"peak_live_bytes", replay.peak_live.value},
            {"peak_requested_bytes", replay.peak_requested.value},
            {"peak_reserved_bytes", replay.peak_reserved.value},
            {"utilization", replay.utilization()},
            {"driver_calls", replay.driver_calls},
            {"driver_calls_last_repeat", replay.driver_calls_last_step},
            {"pages_created", replay.at_end.pages_created},
            {"pages_moved", replay.at_end.pages_moved},
            {"metadata_bytes", replay.at_end.metadata.value},
            {"fragmentation",
             {{"external_at_peak", external_fragmentation(replay.at_peak)},
              {"external_at_end", external_fragmentation(replay.at_end)},
              {"internal_at_peak", internal_fragmentation(replay.at_peak)}}},
            {"out_of_memory", Json()},
            {"samples", of_samples(replay)}};
  if (replay.failure)
    json["out_of_memory"] = {{"operation", replay.failure->operation + 1},
                             {"requested_bytes", replay.failure->size.value},
                             {"message", replay.failure->error.message},
                             {"hint", replay.failure->error.hint}};
  return json;
}

Json of_trace(const ReplayReport& report) {
  const memtrace::Trace& trace = report.trace;
  Json json{{"file", report.file},
            {"format", trace.format},
            {"events", trace.events.size()},
            {"blocks", trace.blocks},
            {"live_before", trace.before.size()},
            {"streams", trace.streams.size()},
            {"device", trace.device},
            {"failed_allocations", trace.failed_allocations},
            {"recorded", Json()}};
  if (trace.recorded)
    json["recorded"] = {{"allocator", trace.recorded->name},
                        {"peak_reserved_bytes", trace.recorded->peak_reserved.value},
                        {"reserved_at_end_bytes", trace.recorded->reserved_at_end.value},
                        {"segments_taken", trace.recorded->segments_taken},
                        {"segments_returned", trace.recorded->segments_returned}};
  return json;
}

}  // namespace

std::string replay_json(const ReplayReport& report) {
  Json json = of_replay(report.replays[0]);
  json["schema"] = 1;
  json["simulated"] = true;
  json["device_memory_bytes"] = report.device_memory.value;
  json["trace"] = of_trace(report);
  json["steps"] = report.steps.size();
  json["strategies"] = Json::array();
  for (const Replay& replay : report.replays) json["strategies"].push_back(of_replay(replay));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gpuwarden::cli
