// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/performance_monitor.hpp"

#include <array>
#include <utility>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "manager/config_table.hpp"

namespace gpuwarden::manager {
namespace {

using Json = nlohmann::json;

/// What summaries are about.
constexpr std::array<std::string_view, 6> kSummed{"utilization",        "memory_used", "memory_used_percent",
                                                  "memory_utilization", "temperature", "power"};

bool is_metric(std::string_view id) {
  return facts::find_metric(id) != nullptr || telemetry::find_derived_metric(id) != nullptr;
}

bool read_threshold(const Json& json, AlertThreshold& threshold) {
  const Json& above = json.is_object() && json.contains("above") ? json["above"] : json;
  if (!above.is_number()) return false;
  threshold.above = above.get<double>();
  if (!json.is_object() || !json.contains("level")) return true;
  const auto level =
      json["level"].is_string() ? telemetry::alert_level_from(json["level"].get<std::string>()) : std::nullopt;
  if (level) threshold.level = *level;
  return level.has_value();
}

ConfigRow<MonitorConfig> thresholds_row() {
  return {"thresholds",
          "an object: for each metric of `gpuwarden list --columns help` a number, or {\"above\": NUMBER, \"level\": "
          "info, warning, error or critical}",
          [](const Json& value, MonitorConfig& config) {
            if (!value.is_object()) return false;
            for (const auto& [metric, given] : value.items()) {
              AlertThreshold threshold;
              if (!is_metric(metric) || !read_threshold(given, threshold)) return false;
              config.thresholds[metric] = threshold;
            }
            return true;
          },
          [](const MonitorConfig& config) {
            Json json = Json::object();
            for (const auto& [metric, threshold] : config.thresholds)
              json[metric] = {{"above", threshold.above}, {"level", to_string(threshold.level)}};
            return json;
          }};
}

const std::vector<ConfigRow<MonitorConfig>>& monitor_rows() {
  using C = MonitorConfig;
  static const std::vector<ConfigRow<C>> kRows{
      flag_row<C, &C::enable_alerting>("enable_alerting"),
      flag_row<C, &C::enable_profiling>("enable_profiling"),
      seconds_row<C, &C::interval, NumberRange{0.1, 600}>("interval", "0.1 to 600 seconds"),
      seconds_row<C, &C::history, NumberRange{1, 604800}>("history", "1 to 604800 seconds (a week)"),
      thresholds_row(),
  };
  return kRows;
}

Json metrics_of(const facts::GpuRecord& record) {
  Json json = Json::object();
  for (const facts::Metric& metric : facts::metrics()) {
    if (const auto value = facts::value_of(metric, record.sample)) json[std::string(metric.id)] = *value;
  }
  for (const telemetry::DerivedMetric& metric : telemetry::derived_metrics()) {
    if (const auto value = metric.value(record)) json[std::string(metric.id)] = *value;
  }
  return json;
}

}  // namespace

nlohmann::json to_json(const MonitorConfig& config) { return write_config(config, monitor_rows()); }

Result<MonitorConfig> monitor_config_from_json(const nlohmann::json& json) {
  if (json.is_object() && json.contains("thresholds") && json["thresholds"].is_object()) {
    for (const auto& [metric, given] : json["thresholds"].items()) {
      if (!is_metric(metric))
        return fail(ErrorCode::invalid_argument, fmt::format("thresholds: unknown metric '{}'", printable(metric)),
                    fmt::format("did you mean '{}'?", telemetry::closest_variable(metric)));
    }
  }
  return read_config(json, monitor_rows());
}

Result<telemetry::AlertConfig> alert_rules(const MonitorConfig& config) {
  if (!config.enable_alerting) return telemetry::AlertConfig{};
  std::string rules;
  for (const auto& [metric, threshold] : config.thresholds) {
    rules += fmt::format(
        "  - {{id: threshold_{0}, when: '{0} > {1:.6g}', level: {2}, message: '{0} is {{value}}, above {1:.6g}'}}\n",
        metric, threshold.above, to_string(threshold.level));
  }
  return telemetry::parse_alert_rules(rules.empty() ? "" : "rules:\n" + rules, "thresholds");
}

PerformanceMonitor::PerformanceMonitor(MonitorConfig config, telemetry::MonitorOptions options)
    : config_(std::move(config)),
      profiler_({.enabled = config_.enable_profiling, .clock = options.clock}),
      monitor_(std::make_unique<telemetry::PerformanceMonitor>(std::move(options))) {
  if (!config_.enable_profiling) return;
  profiled_ = monitor_->add_reading_callback([this](const telemetry::Reading& reading) {
    profiler_.hear(profile::readings_of(reading.snapshot, reading.when));
  });
}

// A monitor that one of its own callbacks ends still calls the others of that reading.
PerformanceMonitor::~PerformanceMonitor() { monitor_->remove_callback(profiled_); }

Result<std::unique_ptr<PerformanceMonitor>> PerformanceMonitor::make(const MonitorConfig& config,
                                                                     telemetry::MonitorOptions options) {
  GPUWARDEN_TRY(MonitorConfig checked, monitor_config_from_json(to_json(config)));
  GPUWARDEN_TRY(options.alerts, alert_rules(checked));
  options.sampler.interval = checked.interval;
  options.remember = checked.history;
  return std::unique_ptr<PerformanceMonitor>(new PerformanceMonitor(std::move(checked), std::move(options)));
}

nlohmann::json PerformanceMonitor::current() const {
  const auto reading = monitor_->latest();
  if (!reading) return {};
  Json gpus = Json::array();
  for (const auto& record : reading->snapshot.gpus) {
    gpus.push_back({{"index", record.gpu.index.value},
                    {"uuid", record.gpu.uuid.value},
                    {"name", record.gpu.name},
                    {"metrics", metrics_of(record)}});
  }
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(reading->snapshot.taken_at.time_since_epoch());
  return {{"time_unix_ms", time.count()}, {"simulated", reading->snapshot.simulated}, {"gpus", std::move(gpus)}};
}

nlohmann::json PerformanceMonitor::summary(std::chrono::milliseconds span) const {
  const auto reading = monitor_->latest();
  Json gpus = Json::array();
  if (!reading) return {{"span_seconds", static_cast<double>(span.count()) / 1000}, {"gpus", std::move(gpus)}};
  for (const auto& record : reading->snapshot.gpus) {
    Json metrics = Json::object();
    for (const std::string_view id : kSummed) {
      const auto found = monitor_->statistics(record.gpu.uuid, id, span);
      if (!found || !*found) continue;
      const telemetry::Statistics& of = **found;
      metrics[std::string(id)] = {
          {"min", of.min}, {"mean", of.mean}, {"max", of.max}, {"p95", of.p95}, {"readings", of.readings}};
    }
    gpus.push_back(
        {{"index", record.gpu.index.value}, {"uuid", record.gpu.uuid.value}, {"metrics", std::move(metrics)}});
  }
  return {{"span_seconds", static_cast<double>(span.count()) / 1000}, {"gpus", std::move(gpus)}};
}

nlohmann::json PerformanceMonitor::status() {
  Json alerts = Json::array();
  for (const auto& alert : monitor_->alerts()) alerts.push_back(telemetry::to_json(alert));
  return {{"running", monitor_->running()},
          {"alerts", std::move(alerts)},
          {"current", current()},
          {"operations", profile::to_json(profiler_.results()).at("operations")}};
}

}  // namespace gpuwarden::manager
