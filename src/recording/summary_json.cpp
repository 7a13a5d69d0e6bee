// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/recording/summary.hpp"
#include "recording/keys.hpp"

namespace gpuwarden::recording {
namespace {

using Json = nlohmann::json;
using recording::to_json;
using std::chrono::milliseconds;
using telemetry::Happening;
using telemetry::Statistics;
using telemetry::Use;
using telemetry::WallTime;

double seconds_of(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json or_null(double value) { return std::isnan(value) ? Json() : Json(value); }

Json to_json(const Statistics& figure) {
  return {{"min", or_null(figure.min)},  {"mean", or_null(figure.mean)},
          {"max", or_null(figure.max)},  {"p50", or_null(figure.p50)},
          {"p95", or_null(figure.p95)},  {"p99", or_null(figure.p99)},
          {"readings", figure.readings}, {"covered_seconds", seconds_of(figure.covered)}};
}

Json to_json(const Use& use) {
  return {{"user", use.user},
          {"job", use.job},
          {"gpu_seconds", use.gpu_seconds},
          {"busy_seconds", use.busy_seconds},
          {"mean_utilization_percent", or_null(use.mean_utilization)},
          {"peak_memory_bytes", use.peak_memory ? Json(use.peak_memory->value) : Json()}};
}

template <class T>
Json list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value));
  return list;
}

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

Statistics unknown_figure() {
  Statistics figure;
  figure.min = figure.mean = figure.max = figure.p50 = figure.p95 = figure.p99 = kUnknown;
  return figure;
}

/// Nothing where it says neither mean nor least nor most.
std::optional<Statistics> statistics_from(const Keys& keys) {
  Statistics figure;
  figure.min = keys.number("min").value_or(kUnknown);
  figure.mean = keys.number("mean").value_or(kUnknown);
  figure.max = keys.number("max").value_or(kUnknown);
  figure.p50 = keys.number("p50").value_or(kUnknown);
  figure.p95 = keys.number("p95").value_or(kUnknown);
  figure.p99 = keys.number("p99").value_or(kUnknown);
  figure.readings = keys.count("readings");
  figure.covered = keys.duration("covered_seconds");
  const bool known = !std::isnan(figure.min) || !std::isnan(figure.mean) || !std::isnan(figure.max);
  return known ? std::optional(figure) : std::nullopt;
}

Happening happening_from(const Keys& keys) {
  return {keys.time("time"), keys.text("kind"), Uuid(keys.text("gpu")), keys.text("text")};
}

Use use_from(const Keys& keys) {
  Use use;
  use.user = keys.text("user");
  use.job = keys.text("job");
  use.gpu_seconds = keys.number("gpu_seconds").value_or(0);
  use.busy_seconds = keys.number("busy_seconds").value_or(0);
  use.mean_utilization = keys.number("mean_utilization_percent");
  use.peak_memory = keys.bytes("peak_memory_bytes");
  return use;
}

/// What a run's report said before it had statistics: a mean here, a peak there.
void add_older_figures(const Keys& keys, GpuSummary& gpu) {
  const auto add = [&](const char* key, const char* metric, double Statistics::* part) {
    const auto value = keys.number(key);
    if (!value || gpu.figures.contains(metric)) return;
    gpu.figures.emplace(metric, unknown_figure()).first->second.*part = *value;
  };
  add("mean_utilization_percent", "utilization", &Statistics::mean);
  add("peak_memory_bytes", "memory_used", &Statistics::max);
  add("peak_temperature_celsius", "temperature", &Statistics::max);
}

GpuSummary gpu_from(const Keys& keys) {
  GpuSummary gpu;
  gpu.index.value = keys.count("index");
  gpu.uuid.value = keys.text("uuid");
  gpu.name = keys.text("name");
  gpu.memory_total = keys.bytes("memory_total_bytes");
  gpu.power_limit = keys.number("power_limit_watts");
  for (const Figure& figure : figures()) {
    const auto found = keys.object(figure.key);
    if (const auto told = found ? statistics_from(*found) : std::nullopt) gpu.figures.emplace(figure.metric, *told);
  }
  add_older_figures(keys, gpu);
  if (const auto joules = keys.number("energy_joules"))
    gpu.energy = telemetry::Energy{*joules, !keys.flag("energy_is_estimate"), {}};
  gpu.throttled_share = keys.number("throttled_share");
  for (const Keys& one : keys.objects("throttling_shares")) {
    if (const auto reason = facts::throttle_reason_from(one.text("reason")))
      gpu.throttling.push_back({*reason, one.duration("seconds"), one.number("share").value_or(0)});
  }
  if (keys.number("idle_seconds")) gpu.idle = keys.duration("idle_seconds");
  if (const auto longest = keys.object("longest_idle"))
    gpu.longest_idle = Stretch{longest->time("from"), longest->duration("seconds")};
  gpu.readings = keys.count(keys.has("readings") ? "readings" : "samples");
  gpu.gaps = keys.count("gaps");
  gpu.gap_time = keys.duration("gap_seconds");
  if (const auto lost = keys.object("lost")) gpu.lost = happening_from(*lost);
  return gpu;
}

telemetry::StoreInfo info_from(const Keys& keys) {
  telemetry::StoreInfo info;
  info.host = keys.text("host");
  info.simulated = keys.flag("simulated");
  info.fleet = keys.text("fleet");
  info.driver_version = keys.text("driver_version");
  info.command = keys.texts("command");
  if (keys.number("exit_code")) info.exit_code = static_cast<int>(keys.count("exit_code") & 0xFFU);
  info.interval = keys.duration("interval_seconds");
  // A run's report is written at its end.
  info.finished = !keys.has("finished") || keys.flag("finished");
  return info;
}

}  // namespace

Json to_json(const Happening& happening) {
  return {{"time", format_utc(happening.time)},
          {"kind", happening.kind},
          {"gpu", happening.gpu.value},
          {"text", happening.text}};
}

Json to_json(const GpuSummary& gpu) {
  Json json = {{"index", gpu.index.value},
               {"uuid", gpu.uuid.value},
               {"name", gpu.name},
               {"memory_total_bytes", gpu.memory_total ? Json(gpu.memory_total->value) : Json()},
               {"power_limit_watts", or_null(gpu.power_limit)},
               {"energy_joules", gpu.energy ? Json(gpu.energy->joules) : Json()},
               {"energy_is_estimate", gpu.energy && !gpu.energy->from_counter},
               {"throttled_share", or_null(gpu.throttled_share)},
               {"idle_seconds", gpu.idle ? Json(seconds_of(*gpu.idle)) : Json()},
               {"idle_share", or_null(gpu.idle_share())},
               {"longest_idle", Json()},
               {"readings", gpu.readings},
               {"gaps", gpu.gaps},
               {"gap_seconds", seconds_of(gpu.gap_time)},
               {"lost", gpu.lost ? to_json(*gpu.lost) : Json()}};
  if (gpu.longest_idle)
    json["longest_idle"] = {{"from", format_utc(gpu.longest_idle->from)},
                            {"seconds", seconds_of(gpu.longest_idle->lasted)}};
  for (const Figure& figure : figures()) {
    const Statistics* known = gpu.figure(figure.metric);
    json[std::string(figure.key)] = known == nullptr ? Json() : to_json(*known);
  }
  Json shares = Json::array();
  for (const ThrottleShare& one : gpu.throttling)
    shares.push_back(
        {{"reason", std::string(to_string(one.reason))}, {"seconds", seconds_of(one.time)}, {"share", one.share}});
  json["throttling_shares"] = shares;
  return json;
}

Json to_json(const Summary& summary) {
  const telemetry::StoreInfo& info = summary.info;
  return facts::answer({{"kind", "recording"},
                        {"fleet", info.fleet},
                        {"host", info.host},
                        {"driver_version", info.driver_version},
                        {"run_id", summary.run_id},
                        {"command", info.command},
                        {"exit_code", or_null(info.exit_code)},
                        {"interval_seconds", seconds_of(info.interval)},
                        {"finished", info.finished},
                        {"held", summary.held},
                        {"from", summary.has_readings() ? Json(format_utc(summary.window.from)) : Json()},
                        {"to", summary.has_readings() ? Json(format_utc(summary.window.to)) : Json()},
                        {"duration_seconds", seconds_of(summary.duration())},
                        {"gpus", list_of(summary.gpus)},
                        {"users", list_of(summary.users)},
                        {"jobs", list_of(summary.jobs)},
                        {"happenings", list_of(summary.happenings)},
                        {"waste", list_of(summary.waste)}},
                       info.simulated);
}

Json to_json(const Waste& waste) {
  Json gpus = Json::array();
  for (const GpuIndex gpu : waste.gpus) gpus.push_back(gpu.value);
  return {{"id", waste.id},
          {"level", std::string(telemetry::to_string(waste.level))},
          {"message", waste.message},
          {"next_step", waste.next_step},
          {"gpus", gpus}};
}

Result<Waste> waste_from_json(const Json& json) {
  std::optional<Error> error;
  const Keys keys(json, error);
  Waste waste{.id = keys.text("id"),
              .level = telemetry::alert_level_from(keys.text("level")).value_or(telemetry::AlertLevel::warning),
              .message = keys.text("message"),
              .next_step = keys.text("next_step"),
              .gpus = {}};
  for (const double index : keys.numbers("gpus"))
    waste.gpus.push_back({static_cast<std::uint32_t>(std::clamp(index, 0.0, 1e6))});
  if (error) return std::unexpected(std::move(*error));
  return waste;
}

Result<Summary> summary_from_json(const Json& json) {
  std::optional<Error> error;
  const Keys keys(json, error);
  Summary summary;
  summary.info = info_from(keys);
  summary.run_id = keys.text("run_id");
  summary.held = keys.has("run_id") && (keys.flag("held") || !keys.has("held"));
  summary.window.from = keys.time(keys.has("from") ? "from" : "started");
  summary.window.to =
      summary.window.from + keys.duration(keys.has("duration_seconds") ? "duration_seconds" : "wall_seconds");
  for (const Keys& gpu : keys.objects("gpus")) {
    summary.gpus.push_back(gpu_from(gpu));
    // Without an index they are told apart by their places.
    if (!gpu.has("index")) summary.gpus.back().index.value = static_cast<std::uint32_t>(summary.gpus.size() - 1);
  }
  for (const Keys& use : keys.objects("users")) summary.users.push_back(use_from(use));
  for (const Keys& use : keys.objects("jobs")) summary.jobs.push_back(use_from(use));
  for (const Keys& one : keys.objects("happenings")) summary.happenings.push_back(happening_from(one));
  if (error) return std::unexpected(std::move(*error));
  if (keys.has("waste")) {
    for (const Json& one : json.at("waste")) {
      GPUWARDEN_TRY(auto waste, waste_from_json(one));
      summary.waste.push_back(std::move(waste));
    }
  }
  return summary;
}

}  // namespace gpuwarden::recording
