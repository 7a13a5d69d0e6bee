// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/gpu_readings.hpp"

#include <algorithm>
#include <ranges>

#include "profile/units.hpp"

namespace gpuwarden::profile {
namespace {

using Time = Clock::SteadyTime;
using Readings = std::deque<GpuReading>;

/// A value at a moment between two readings; nothing where one of them lacks it.
template <class Member>
std::optional<double> at(const GpuReading& a, const GpuReading& b, Member member, Time time) {
  const auto& left = a.*member;
  const auto& right = b.*member;
  if (!left || !right) return std::nullopt;
  const auto from = static_cast<double>(left->value);
  const double whole = seconds(b.when - a.when);
  if (whole <= 0) return from;
  return from + (static_cast<double>(right->value) - from) * seconds(time - a.when) / whole;
}

/// The readings whose stretches touch a span: the last one at or before its start to the first at or after its end.
std::optional<std::ranges::subrange<Readings::const_iterator>> around(const Readings& readings, Time start, Time end) {
  auto first = std::ranges::upper_bound(readings, start, {}, &GpuReading::when);
  const auto last = std::ranges::lower_bound(readings, end, {}, &GpuReading::when);
  if (first == readings.begin() || last == readings.end()) return std::nullopt;
  --first;
  return std::ranges::subrange(first, std::max(last, first) + 1);
}

/// What one GPU used in a span, in joules.
std::optional<double> joules_in(const auto& around, Time start, Time end, bool by_counter) {
  double sum = 0;
  for (auto b = around.begin() + 1; b < around.end(); ++b) {
    const auto& a = *(b - 1);
    const Time from = std::max(a.when, start);
    const Time to = std::min(b->when, end);
    if (by_counter) {
      const auto before = at(a, *b, &GpuReading::energy, from);
      const auto after = at(a, *b, &GpuReading::energy, to);
      // A counter that falls began anew; what was used until then is not known.
      if (!before || !after || *after < *before) return std::nullopt;
      sum += (*after - *before) / 1000;
    } else {
      const auto before = at(a, *b, &GpuReading::power, from);
      const auto after = at(a, *b, &GpuReading::power, to);
      if (!before || !after) return std::nullopt;
      sum += (*before + *after) / 2 / 1000 * seconds(to - from);
    }
  }
  return sum;
}

/// Mean utilization of one GPU in a span: each reading stands for the time since the one before it.
std::optional<double> utilization_in(const auto& around, Time start, Time end) {
  double sum = 0;
  double known = 0;
  for (auto b = around.begin() + 1; b < around.end(); ++b) {
    if (!b->utilization) continue;
    const double part = seconds(std::min(b->when, end) - std::max((b - 1)->when, start));
    sum += part * static_cast<double>(b->utilization->value);
    known += part;
  }
  if (known > 0) return sum / known;
  // An empty span, or one reading alone.
  const auto& last = *(around.end() - 1);
  return last.utilization ? std::optional<double>(static_cast<double>(last.utilization->value)) : std::nullopt;
}

}  // namespace

std::vector<GpuReading> readings_of(const facts::Snapshot& snapshot, Time when) {
  std::vector<GpuReading> result;
  for (const auto& record : snapshot.gpus) {
    if (!facts::is_usable(record)) continue;
    result.push_back({.when = when,
                      .gpu = record.gpu.index,
                      .utilization = record.sample.utilization_gpu,
                      .memory_used = record.sample.memory_used,
                      .power = record.sample.power,
                      .energy = record.sample.energy});
  }
  return result;
}

GpuReadings::GpuReadings(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 2)) {}

void GpuReadings::add(const GpuReading& reading) {
  auto& readings = gpus_[reading.gpu];
  if (!readings.empty() && reading.when <= readings.back().when) return;
  readings.push_back(reading);
  if (readings.size() > capacity_) readings.pop_front();
}

bool GpuReadings::is_gone(const Readings& readings) const {
  constexpr std::size_t kRounds = 3;
  return std::ranges::any_of(gpus_ | std::views::values, [&](const Readings& others) {
    return others.size() >= kRounds && others[others.size() - kRounds].when > readings.back().when;
  });
}

bool GpuReadings::reach(Time time) const {
  return !gpus_.empty() && std::ranges::all_of(gpus_ | std::views::values, [&](const Readings& readings) {
    return readings.back().when >= time || is_gone(readings);
  });
}

std::optional<GpuSpan> GpuReadings::span(Time start, Time end) const {
  GpuSpan result{.joules = 0.0, .utilization = {}, .memory_peak = {}};
  double utilization = 0;
  unsigned told = 0;
  bool read = false;
  for (const auto& readings : gpus_ | std::views::values) {
    const auto touched = around(readings, start, end);
    if (!touched && !is_gone(readings)) return std::nullopt;
    if (!touched) {
      if (readings.back().when > start) result.joules.reset();
      continue;
    }
    read = true;
    auto joules = joules_in(*touched, start, end, true);
    if (!joules) joules = joules_in(*touched, start, end, false);
    result.joules = joules && result.joules ? std::optional(*result.joules + *joules) : std::nullopt;
    if (const auto mean = utilization_in(*touched, start, end)) {
      utilization += *mean;
      ++told;
    }
    for (const auto& reading : *touched) result.memory_peak = std::max(result.memory_peak, reading.memory_used);
  }
  if (!read) return std::nullopt;
  if (told > 0) result.utilization = utilization / told;
  return result;
}

std::vector<GpuReading> GpuReadings::all() const {
  std::vector<GpuReading> result;
  for (const auto& readings : gpus_ | std::views::values) result.insert(result.end(), readings.begin(), readings.end());
  return result;
}

}  // namespace gpuwarden::profile
