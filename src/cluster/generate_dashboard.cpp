// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/cluster/generate.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/telemetry/promql.hpp"

namespace gpuwarden::cluster {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// The panels "timeseries" and "stat" are there since Grafana 8; 36 is the schema of 9.0.
constexpr int kSchemaVersion = 36;
constexpr int kWidth = 24;
constexpr int kPanelHeight = 8;
constexpr int kStatHeight = 4;

/// Subjects of metrics, by the beginnings of their ids; what begins with nothing of these stands under the last.
struct Subject {
  std::string_view title;
  std::string_view beginnings;  ///< with blanks between
};
constexpr auto kSubjects =
    std::to_array<Subject>({{"Utilization", "utilization memory_utilization sm_ tensor_ dram_ fp"},
                            {"Memory", "memory_used memory_free memory_total memory_reserved bar1_"},
                            {"Power and temperature", "power temperature memory_temperature energy fan_"},
                            {"Clocks and what holds them back", "clock_ performance_state slowdown_"},
                            {"Links", "pcie_ nvlink_"},
                            {"Memory errors", "ecc_ retired_ remapped_"},
                            {"Video", "encoder_ decoder_ jpeg_ ofa_ frame_capture_"},
                            {"Other", ""}});

/// Grafana's names of units.
struct Unit {
  std::string_view ours;
  std::string_view grafana;
};
constexpr auto kUnits = std::to_array<Unit>({{"%", "percent"},
                                             {"B", "bytes"},
                                             {"B/s", "binBps"},
                                             {"°C", "celsius"},
                                             {"W", "watt"},
                                             {"J", "joule"},
                                             {"s", "s"},
                                             {"", "short"}});

std::string grafana_unit(std::string_view unit) {
  const auto* const found = std::ranges::find(kUnits, unit, &Unit::ours);
  return found == kUnits.end() ? fmt::format("suffix: {}", unit) : std::string(found->grafana);
}

const Subject& subject_of(std::string_view id) {
  for (const Subject& subject : kSubjects) {
    std::string_view left = subject.beginnings;
    while (!left.empty()) {
      const std::string_view beginning = left.substr(0, left.find(' '));
      if (id.starts_with(beginning)) return subject;
      left.remove_prefix(std::min(left.size(), beginning.size() + 1));
    }
  }
  return kSubjects.back();
}

constexpr std::string_view kChosen = R"({instance=~"$instance", gpu=~"$gpu"})";

OrderedJson source() { return {{"type", "prometheus"}, {"uid", "${datasource}"}}; }

OrderedJson target(const std::string& expression, const std::string& legend) {
  return {{"datasource", source()}, {"expr", expression}, {"legendFormat", legend}, {"refId", "A"}};
}

/// Lays panels out from the top, left to right.
class Board {
 public:
  void row(std::string_view title) {
    finish_line();
    panels_.push_back({{"type", "row"}, {"title", title}, {"collapsed", false}, {"panels", OrderedJson::array()}});
    place(panels_.back(), kWidth, 1);
  }

  void stat(std::string_view title, const std::string& expression, std::string_view unit, bool bad_above_zero) {
    OrderedJson steps = OrderedJson::array({{{"color", "green"}, {"value", nullptr}}});
    if (bad_above_zero) steps.push_back({{"color", "red"}, {"value", 1}});
    panels_.push_back({{"type", "stat"},
                       {"title", title},
                       {"datasource", source()},
                       {"targets", OrderedJson::array({target(expression, "")})},
                       {"fieldConfig",
                        {{"defaults", {{"unit", unit}, {"thresholds", {{"mode", "absolute"}, {"steps", steps}}}}},
                         {"overrides", OrderedJson::array()}}},
                       {"options", {{"reduceOptions", {{"calcs", {"lastNotNull"}}}}, {"colorMode", "value"}}}});
    place(panels_.back(), kWidth / 6, kStatHeight);
  }

  void graph(std::string_view title, std::string_view help, const std::string& expression, const std::string& unit) {
    OrderedJson defaults{{"unit", unit},
                         {"custom", {{"fillOpacity", 10}, {"showPoints", "never"}, {"spanNulls", false}}}};
    if (unit == "percent") defaults.update({{"min", 0}, {"max", 100}});
    panels_.push_back(
        {{"type", "timeseries"},
         {"title", title},
         {"description", help},
         {"datasource", source()},
         {"targets", OrderedJson::array({target(expression, "{{instance}} GPU {{gpu}}")})},
         {"fieldConfig", {{"defaults", std::move(defaults)}, {"overrides", OrderedJson::array()}}},
         {"options", {{"legend", {{"showLegend", false}}}, {"tooltip", {{"mode", "multi"}, {"sort", "desc"}}}}}});
    place(panels_.back(), kWidth / 2, kPanelHeight);
  }

  OrderedJson take() { return std::move(panels_); }

 private:
  void place(OrderedJson& panel, int width, int height) {
    if (x_ + width > kWidth) finish_line();
    panel["id"] = ++last_id_;
    panel["gridPos"] = {{"h", height}, {"w", width}, {"x", x_}, {"y", y_}};
    x_ += width;
    height_ = std::max(height_, height);
    if (x_ >= kWidth) finish_line();
  }
  void finish_line() {
    y_ += height_;
    x_ = 0;
    height_ = 0;
  }

  OrderedJson panels_ = OrderedJson::array();
  int x_ = 0;
  int y_ = 0;
  int height_ = 0;
  int last_id_ = 0;
};

void add_overview(Board& board) {
  const auto whole = [](std::string_view metric) { return fmt::format(R"(sum({}{{instance=~"$instance"}}))", metric); };
  board.row("At a glance");
  board.stat("GPUs present", whole("gpuwarden_gpus_present"), "short", false);
  board.stat("GPUs lost", whole("gpuwarden_gpus_lost"), "short", true);
  board.stat(
      "Machines down",
      R"(count(up{instance=~"$instance"} == 0 and on (job, instance) last_over_time(gpuwarden_up[1d])) or vector(0))",
      "short", true);
  board.stat("Mean utilization", fmt::format("avg(gpuwarden_gpu_utilization_percent{})", kChosen), "percent", false);
  board.stat("Power", fmt::format("sum(gpuwarden_gpu_power_watts{})", kChosen), "watt", false);
  board.stat("Alerts", whole("gpuwarden_alerts_active"), "short", true);
}

/// A counter is shown by how fast it grows.
void add_metric(Board& board, const facts::Metric& metric) {
  const bool counter = metric.kind == facts::MetricKind::counter;
  const std::string series = fmt::format("{}{}", metric.prometheus, kChosen);
  if (metric.unit == "J")
    return board.graph("Energy used, as power", metric.help, fmt::format("rate({}[$__rate_interval])", series), "watt");
  if (counter && metric.unit == "s")
    return board.graph(metric.id, metric.help, fmt::format("100 * rate({}[$__rate_interval])", series), "percent");
  const std::string expression = counter ? fmt::format("increase({}[$__rate_interval])", series) : series;
  board.graph(metric.id, metric.help, expression, grafana_unit(metric.unit));
}

OrderedJson variable(std::string_view name, std::string_view label, const std::string& query) {
  return {{"name", name},
          {"label", label},
          {"type", "query"},
          {"datasource", source()},
          {"query", {{"query", query}, {"refId", "A"}}},
          {"definition", query},
          {"refresh", 2},
          {"sort", 3},
          {"multi", true},
          {"includeAll", true},
          {"allValue", ".*"},
          {"current", {{"text", "All"}, {"value", "$__all"}}}};
}

}  // namespace

std::string grafana_dashboard() {
  Board board;
  add_overview(board);
  for (const Subject& subject : kSubjects) {
    bool begun = false;
    for (const facts::Metric& metric : facts::metrics()) {
      if (&subject_of(metric.id) != &subject) continue;
      if (!begun) board.row(subject.title);
      begun = true;
      add_metric(board, metric);
    }
    if (subject.title == "Clocks and what holds them back")
      board.graph("Throttled by", "Reasons that hold the clocks back, by how many GPUs have them.",
                  fmt::format(R"(sum by (reason) (gpuwarden_gpu_throttle_reason{}))", kChosen), "short");
  }
  const OrderedJson dashboard{
      {"title", "GPUs (gpuwarden)"},
      {"uid", "gpuwarden"},
      {"tags", {"gpu", "gpuwarden"}},
      {"schemaVersion", kSchemaVersion},
      {"editable", true},
      {"refresh", "10s"},
      {"time", {{"from", "now-1h"}, {"to", "now"}}},
      {"templating",
       {{"list",
         OrderedJson::array(
             {{{"name", "datasource"}, {"label", "Prometheus"}, {"type", "datasource"}, {"query", "prometheus"}},
              variable("instance", "machine", "label_values(gpuwarden_up, instance)"),
              variable("gpu", "GPU", R"(label_values(gpuwarden_gpu_info{instance=~"$instance"}, gpu))")})}}},
      {"panels", board.take()}};
  return dashboard.dump(2) + "\n";
}

}  // namespace gpuwarden::cluster
