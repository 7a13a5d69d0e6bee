// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::memtrace {
namespace {

using Json = nlohmann::json;

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
  const Trace& trace = report.trace;
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

Json to_json(const ReplayReport& report) {
  Json json = of_replay(report.replays[0]);
  json["device_memory_bytes"] = report.device_memory.value;
  json["trace"] = of_trace(report);
  json["steps"] = report.steps.size();
  json["strategies"] = Json::array();
  for (const Replay& replay : report.replays) json["strategies"].push_back(of_replay(replay));
  return facts::answer(std::move(json), true);
}

Json to_json(const std::vector<TraceSummary>& traces, int exit_code, bool simulated) {
  Json json = facts::answer({{"exit_code", exit_code}, {"traces", Json::array()}}, simulated);
  for (const TraceSummary& one : traces)
    json["traces"].push_back({{"file", one.file.string()},
                              {"problem", one.problem.empty() ? Json() : Json(one.problem)},
                              {"allocations", one.allocations},
                              {"frees", one.frees},
                              {"peak_live_bytes", one.peak.value},
                              {"live_at_end_bytes", one.at_end.value}});
  return json;
}

}  // namespace gpuwarden::memtrace
