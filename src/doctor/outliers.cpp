// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/outliers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {
namespace {

constexpr std::size_t kFewestPeers = 4;
constexpr std::int64_t kBusyPercent = 50;

/// A reading in which GPUs that do the same are alike.
struct Reading {
  std::string_view name;
  std::string_view unit;
  std::optional<double> (*value)(const facts::GpuSample&);
  bool busy_only = false;  ///< idle GPUs rest, each as it likes
  bool high_is_odd = false;
  /// How far from the median is odd.
  double (*margin)(double median);
};

template <class T>
std::optional<double> number(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(value->value)) : std::nullopt;
}

constexpr auto kReadings = std::to_array<Reading>({
    {.name = "temperature",
     .unit = "C",
     .value = [](const facts::GpuSample& sample) { return number(sample.temperature); },
     .high_is_odd = true,
     .margin = [](double) { return 15.0; }},
    {.name = "memory temperature",
     .unit = "C",
     .value = [](const facts::GpuSample& sample) { return number(sample.temperature_memory); },
     .high_is_odd = true,
     .margin = [](double) { return 15.0; }},
    {.name = "SM clock",
     .unit = "MHz",
     .value = [](const facts::GpuSample& sample) { return number(sample.clock_sm); },
     .busy_only = true,
     .margin = [](double median) { return median / 10; }},
    {.name = "PCIe generation",
     .unit = "",
     .value = [](const facts::GpuSample& sample) { return number(sample.pcie_generation); },
     .busy_only = true,
     .margin = [](double) { return 1.0; }},
});

bool is_busy(const facts::GpuSample& sample) {
  return sample.utilization_gpu && sample.utilization_gpu->value >= kBusyPercent;
}

/// A GPU somewhere, with one reading.
struct Place {
  const NamedMachine* machine = nullptr;
  const facts::GpuRecord* gpu = nullptr;
  double value = 0;
};

/// Of an even count the mean of the two in the middle.
double median_of(std::vector<Place> places) {
  const auto middle = places.begin() + static_cast<std::ptrdiff_t>(places.size() / 2);
  std::ranges::nth_element(places, middle, {}, &Place::value);
  if (places.size() % 2 != 0) return middle->value;
  return (std::ranges::max_element(places.begin(), middle, {}, &Place::value)->value + middle->value) / 2;
}

std::string shown(double value, const Reading& reading) {
  return fmt::format("{:.0f}{}{}", value, reading.unit.empty() ? "" : " ", reading.unit);
}

void add_odd(const Reading& reading, const std::vector<Place>& peers, std::vector<Outlier>& found) {
  if (peers.size() < kFewestPeers) return;
  const double median = median_of(peers);
  for (const Place& place : peers) {
    const double off = reading.high_is_odd ? place.value - median : median - place.value;
    if (off < reading.margin(median)) continue;
    found.push_back({place.machine->name, fmt::format("GPU {} {}", place.gpu->gpu.index.value, reading.name),
                     shown(place.value, reading), shown(median, reading)});
  }
}

void add_readings(const Reading& reading, const std::vector<NamedMachine>& machines, std::vector<Outlier>& found) {
  std::map<std::pair<std::string, bool>, std::vector<Place>> peers;
  for (const NamedMachine& machine : machines) {
    for (const facts::GpuRecord& record : machine.snapshot.gpus) {
      const auto value = reading.value(record.sample);
      const bool busy = is_busy(record.sample);
      if (value && (busy || !reading.busy_only)) peers[{record.gpu.name, busy}].push_back({&machine, &record, *value});
    }
  }
  for (const auto& [kind, places] : peers) add_odd(reading, places, found);
}

}  // namespace

std::vector<Outlier> outliers(const std::vector<NamedMachine>& machines) {
  std::vector<Outlier> found;
  const Comparison comparison = compare(machines);
  for (const Difference& difference : comparison.differences) {
    const auto known = std::ranges::count_if(difference.values, [](const std::string& one) { return one != "-"; });
    if (difference.usual.empty() || known < 3 || difference.own) continue;
    for (std::size_t i = 0; i < machines.size(); ++i) {
      const std::string& value = difference.values[i];
      if (value != "-" && value != difference.usual)
        found.push_back({machines[i].name, difference.what, value, difference.usual});
    }
  }
  for (const Reading& reading : kReadings) add_readings(reading, machines, found);
  std::ranges::stable_sort(found, {}, &Outlier::machine);
  return found;
}

nlohmann::json to_json(const std::vector<Outlier>& outliers) {
  nlohmann::json list = nlohmann::json::array();
  for (const Outlier& one : outliers)
    list.push_back({{"machine", one.machine}, {"what", one.what}, {"value", one.value}, {"usual", one.usual}});
  return list;
}

}  // namespace gpuwarden::doctor
