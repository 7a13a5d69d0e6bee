// SPDX-License-Identifier: Apache-2.0
// Answers about what was: history, use, alerts, happenings, and the stream of what comes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "serve/call.hpp"
#include "serve/names.hpp"

namespace gpuwarden::serve {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kUsualPoints = 500;
constexpr std::size_t kMostPoints = 11000;

Result<telemetry::Window> window_of(const Call& call, std::string_view from) {
  telemetry::Window window;
  GPUWARDEN_TRY(window.from, parse_moment(call.parameter("from").value_or(std::string(from)), call.now()));
  GPUWARDEN_TRY(window.to, parse_moment(call.parameter("to").value_or("now"), call.now()));
  if (window.from >= window.to)
    return fail(ErrorCode::invalid_argument, "`from` must be before `to`", "for example from=-1h");
  return window;
}

/// At least so long that the answer is no heap.
Result<milliseconds> step_of(const Call& call, const telemetry::Window& window) {
  const auto span = std::chrono::duration_cast<milliseconds>(window.to - window.from);
  const auto text = call.parameter("step");
  if (!text || text->empty()) {
    // Down to whole readings where there are few.
    const milliseconds even = span / kUsualPoints;
    return even <= call.sources.interval ? milliseconds(0) : even;
  }
  GPUWARDEN_TRY(const milliseconds step, parse_duration(*text));
  const milliseconds real = std::max(step, call.sources.interval);
  if (span / real > static_cast<std::int64_t>(kMostPoints))
    return fail(ErrorCode::invalid_argument, fmt::format("that would be more than {} points", kMostPoints),
                fmt::format("take a step of at least {}", format_duration(span / kMostPoints + milliseconds(1))));
  return step;
}

/// Of this machine.
Result<Uuid> gpu_of(const Call& call) {
  const std::string text = call.parameter("gpu").value_or("");
  if (text.empty()) return fail(ErrorCode::invalid_argument, "`gpu` is missing", "a GPU's UUID or index");
  const auto reading = call.sources.watch->latest();
  if (!reading) return Uuid(text);
  auto named = gpu_named(text, reading->snapshot);
  // One that is gone has a history all the same.
  const bool is_uuid = text.starts_with("GPU-") || text.starts_with("MIG-");
  if (!named && named.error().code == ErrorCode::not_found && is_uuid) return Uuid(text);
  return named;
}

std::string_view unit_of(std::string_view id) {
  if (const facts::Metric* metric = facts::find_metric(id)) return metric->unit;
  if (const telemetry::DerivedMetric* metric = telemetry::find_derived_metric(id)) return metric->unit;
  return "";
}

Json to_json(const telemetry::Series& series) {
  Json points = Json::array();
  for (const telemetry::Point& point : series.points)
    points.push_back(Json::array({unix_ms(point.time), point.min, point.mean, point.max}));
  return facts::document({{"uuid", series.uuid.value},
                          {"metric", series.metric},
                          {"unit", unit_of(series.metric)},
                          {"step_seconds", static_cast<double>(series.step.count()) / 1000},
                          {"points", std::move(points)}});
}

Json use_json(const Call& call, const telemetry::Use& use) {
  const bool shown = call.caller.sees_commands;
  const std::string command = shown && call.sources.redact ? call.sources.redact(use.command) : use.command;
  return {{"user", use.user},
          {"job", use.job},
          {"pid", use.pid ? Json(use.pid->value) : Json()},
          {"command", shown ? command : ""},
          {"uuid", use.gpu.value},
          {"gpu", use.gpu.value.empty() ? Json() : Json(use.index.value)},
          {"from_unix_ms", unix_ms(use.from)},
          {"to_unix_ms", unix_ms(use.to)},
          {"gpu_seconds", use.gpu_seconds},
          {"busy_seconds", use.busy_seconds},
          {"mean_utilization", use.mean_utilization ? Json(*use.mean_utilization) : Json()},
          {"peak_memory_bytes", use.peak_memory ? Json(use.peak_memory->value) : Json()}};
}

struct ByName {
  std::string_view name;
  telemetry::UseBy by;
};
constexpr auto kBy = std::to_array<ByName>(
    {{"user", telemetry::UseBy::user}, {"job", telemetry::UseBy::job}, {"process", telemetry::UseBy::process}});

Json change_json(const telemetry::AlertChange& change) {
  return {{"kind", telemetry::to_string(change.kind)},
          {"alert", telemetry::to_json(change.alert)},
          {"silenced", change.silenced}};
}

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Response get_history(const Call& call) {
  const auto ask = [&]() -> Result<telemetry::Series> {
    const std::string name = call.parameter("metric").value_or("");
    if (name.empty()) return fail(ErrorCode::invalid_argument, "`metric` is missing", "for example metric=power");
    GPUWARDEN_TRY(const std::string metric, metric_named(name));
    GPUWARDEN_TRY(const Uuid gpu, gpu_of(call));
    GPUWARDEN_TRY(const telemetry::Window window, window_of(call, "-15m"));
    GPUWARDEN_TRY(const milliseconds step, step_of(call, window));
    return call.sources.watch->history(gpu, metric, window, step);
  };
  const auto series = ask();
  return series ? json_answer(to_json(*series)) : error_answer(series.error());
}

Response get_usage(const Call& call) {
  const auto window = window_of(call, "-1h");
  if (!window) return error_answer(window.error());
  std::vector<telemetry::Use> uses = call.sources.watch->uses(*window);
  if (const auto by = call.parameter("by")) {
    const auto* const found = std::ranges::find(kBy, *by, &ByName::name);
    if (found == kBy.end())
      return error_answer(
          {ErrorCode::invalid_argument, fmt::format("by: unknown '{}'", printable(*by)), "user, job or process"});
    uses = telemetry::sum_up(uses, found->by);
  }
  Json list = Json::array();
  for (const telemetry::Use& use : uses) list.push_back(use_json(call, use));
  return json_answer(facts::document(
      {{"from_unix_ms", unix_ms(window->from)}, {"to_unix_ms", unix_ms(window->to)}, {"uses", std::move(list)}}));
}

Response get_happenings(const Call& call) {
  const auto window = window_of(call, "-24h");
  if (!window) return error_answer(window.error());
  Json list = Json::array();
  for (const telemetry::Happening& happening : call.sources.watch->happenings(*window, 1000)) {
    list.push_back({{"time_unix_ms", unix_ms(happening.time)},
                    {"kind", happening.kind},
                    {"uuid", happening.gpu.value},
                    {"text", happening.text}});
  }
  return json_answer(facts::document({{"happenings", std::move(list)}}));
}

Response get_alerts(const Call& call) {
  Json active = Json::array();
  for (const cluster::Node& node : all_nodes(call.sources)) {
    for (const telemetry::Alert& alert : shown_to(call, node.alerts)) {
      Json entry = telemetry::to_json(alert);
      entry["node"] = node.name;
      // Of a machine that does not answer it is the last word, which may not hold any more.
      entry["current"] = !node.problem;
      active.push_back(std::move(entry));
    }
  }
  Json log = Json::array();
  for (telemetry::AlertChange change : call.sources.watch->alert_log(100)) {
    change.alert = shown_to(call, {change.alert}).front();
    log.push_back(change_json(change));
  }
  return json_answer(facts::document({{"alerts", std::move(active)}, {"log", std::move(log)}}));
}

Response get_silences(const Call& call) {
  Json list = Json::array();
  for (const telemetry::Silence& silence : call.sources.watch->silences()) {
    if (silence.until > call.now()) list.push_back(telemetry::to_json(silence));
  }
  return json_answer(facts::document({{"silences", std::move(list)}}));
}

Response get_events(const Call& call) {
  std::optional<std::uint64_t> last;
  if (const auto id = parse_integer(call.request.header("last-event-id")); id && *id >= 0)
    last = static_cast<std::uint64_t>(*id);
  Response response;
  response.stream = call.sources.events->listen(last, call.sources.clock->now());
  if (!response.stream)
    return error_answer({ErrorCode::unavailable, "too many listen already", "ask /api/v1/samples now and then"});
  response.type = "text/event-stream";
  response.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  return response;
}

void tell_reading(EventHub& hub, const telemetry::Reading& reading) {
  hub.tell("reading", true, [&] {
    return line_of({{"time_unix_ms", unix_ms(reading.snapshot.taken_at)},
                    {"simulated", reading.snapshot.simulated},
                    {"gpus", reading.snapshot.gpus.size()},
                    {"problem", reading.snapshot.problem.has_value()}});
  });
}

void tell_alert(EventHub& hub, const telemetry::AlertChange& change) {
  hub.tell("alert", false, [&] { return line_of(change_json(change)); });
}

void tell_health(EventHub& hub, const telemetry::HealthChange& change) {
  hub.tell("health", false,
           [&] { return line_of({{"before", facts::to_json(change.before)}, {"now", facts::to_json(change.now)}}); });
}

}  // namespace gpuwarden::serve
