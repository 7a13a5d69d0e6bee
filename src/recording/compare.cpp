// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/compare.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/recording/words.hpp"

namespace gpuwarden::recording {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

double whole_seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

std::optional<double> mean_over_gpus(const Summary& summary, std::string_view metric) {
  double sum = 0;
  int known = 0;
  for (const GpuSummary& gpu : summary.gpus) {
    if (const auto* figure = gpu.figure(metric); figure != nullptr && !std::isnan(figure->mean)) {
      sum += figure->mean;
      ++known;
    }
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

/// A row of the table: a figure of a whole recording.
struct Compared {
  std::string_view title;
  std::string_view key;
  std::string_view unit;
  std::optional<double> (*value)(const Summary&, const Totals&);
};

constexpr auto kCompared = std::to_array<Compared>({
    {"Duration", "duration_seconds", "s",
     [](const Summary& s, const Totals&) { return std::optional(whole_seconds(s.duration())); }},
    {"GPUs", "gpus", "",
     [](const Summary& s, const Totals&) { return std::optional(static_cast<double>(s.gpus.size())); }},
    {"GPUs that worked", "gpus_used", "",
     [](const Summary&, const Totals& t) { return t.used ? std::optional<double>(*t.used) : std::nullopt; }},
    {"Mean GPU utilization", "mean_utilization_percent", "%",
     [](const Summary&, const Totals& t) { return t.mean_utilization; }},
    {"Idle", "idle_share", "share", [](const Summary&, const Totals& t) { return t.idle_share; }},
    {"Mean memory used", "mean_memory_bytes", "B",
     [](const Summary& s, const Totals&) { return mean_over_gpus(s, "memory_used"); }},
    {"Peak memory", "peak_memory_bytes", "B",
     [](const Summary&, const Totals& t) {
       return t.peak_memory ? std::optional(static_cast<double>(t.peak_memory->value)) : std::nullopt;
     }},
    {"Mean power of all GPUs", "mean_power_watts", "W", [](const Summary&, const Totals& t) { return t.mean_watts; }},
    {"Energy", "energy_joules", "J",
     [](const Summary&, const Totals& t) { return t.without_energy == 0 ? t.joules : std::nullopt; }},
    {"Mean SM clock", "mean_clock_sm_megahertz", "MHz",
     [](const Summary& s, const Totals&) { return mean_over_gpus(s, "clock_sm"); }},
    {"Mean temperature", "mean_temperature_celsius", "°C",
     [](const Summary& s, const Totals&) { return mean_over_gpus(s, "temperature"); }},
    {"Highest temperature", "peak_temperature_celsius", "°C",
     [](const Summary&, const Totals& t) { return t.peak_temperature; }},
    {"Throttled", "throttled_share", "share", [](const Summary&, const Totals& t) { return t.throttled_share; }},
});

std::string value_text(std::string_view unit, double value) {
  if (unit == "share") return share_text(value);
  if (unit == "s") return duration_text(milliseconds(std::llround(value * 1000)));
  if (unit == "J") return energy_text(value);
  return quantity_text(value, unit);
}

bool is_share(std::string_view unit) { return unit == "%" || unit == "share"; }

/// Whether a difference in percent of the first means something: a percentage of a percentage misleads, a temperature
/// has no zero, and GPUs are counted.
bool is_relative(std::string_view unit) { return !is_share(unit) && !unit.empty() && unit != "°C"; }

/// "12 points" of percent; else as values are written.
std::string size_text(std::string_view unit, double size) {
  if (!is_share(unit)) return value_text(unit, size);
  const double points = unit == "share" ? size * 100 : size;
  const std::string text = quantity_text(points, "");
  return text + (text == "1" ? " point" : " points");
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::optional<double> ComparedFigure::difference() const { return a && b ? std::optional(*b - *a) : std::nullopt; }

std::optional<double> ComparedFigure::percent() const {
  const auto change = difference();
  if (!change || *a == 0 || !is_relative(unit)) return std::nullopt;
  return *change / std::abs(*a) * 100;
}

std::vector<ComparedFigure> compare(const Summary& a, const Summary& b) {
  const Totals of_a = totals_of(a);
  const Totals of_b = totals_of(b);
  std::vector<ComparedFigure> figures;
  for (const Compared& row : kCompared)
    figures.push_back({row.title, row.key, row.unit, row.value(a, of_a), row.value(b, of_b)});
  return figures;
}

std::string text_of(const ComparedFigure& figure, const std::optional<double>& value) {
  return value ? value_text(figure.unit, *value) : "-";
}

std::string difference_text(const ComparedFigure& figure) {
  const auto change = figure.difference();
  if (!change) return "-";
  const std::string size = size_text(figure.unit, std::abs(*change));
  if (size == size_text(figure.unit, 0)) return "no change";
  const char* sign = *change > 0 ? "+" : "-";
  const auto percent = figure.percent();
  const bool tells = percent && std::abs(*percent) >= 0.5;
  return tells ? fmt::format("{}{} ({}{:.0f} %)", sign, size, sign, std::abs(*percent)) : sign + size;
}

Json to_json(const std::vector<ComparedFigure>& figures, const Summary& a, const Summary& b) {
  Json list = Json::array();
  for (const ComparedFigure& figure : figures)
    list.push_back({{"key", std::string(figure.key)},
                    {"title", std::string(figure.title)},
                    {"unit", std::string(figure.unit)},
                    {"a", number_or_null(figure.a)},
                    {"b", number_or_null(figure.b)},
                    {"difference", number_or_null(figure.difference())},
                    {"percent", number_or_null(figure.percent())}});
  return facts::answer({{"kind", "comparison"}, {"a", to_json(a)}, {"b", to_json(b)}, {"figures", list}},
                       a.info.simulated || b.info.simulated);
}

}  // namespace gpuwarden::recording
