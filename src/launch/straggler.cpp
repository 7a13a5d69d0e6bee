// SPDX-License-Identifier: Apache-2.0
#include "launch/straggler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
namespace {

using facts::ThrottleReason;
using std::chrono::milliseconds;

constexpr double kPeersWork = 30;     ///< percent of utilization
constexpr double kItselfWorks = 10;   ///< percent: the clock of one that idles tells nothing
constexpr double kSlowClock = 0.8;    ///< of the peers' median
constexpr double kLittleWork = 0.5;   ///< of the peers' median
constexpr double kLittlePower = 0.7;  ///< of the peers' median
constexpr double kMostOfTheTime = 0.5;
constexpr std::size_t kFewestReadings = 5;

/// The mean of what is known; nothing where less than half of it is.
template <class Values, class Of>
std::optional<double> mean_of(const Values& values, Of of) {
  double sum = 0;
  std::size_t known = 0;
  for (const auto& value : values) {
    if (const auto one = of(value)) {
      sum += static_cast<double>(*one);
      ++known;
    }
  }
  if (known == 0 || known * 2 < values.size()) return std::nullopt;
  return sum / static_cast<double>(known);
}

/// Of those that are known; nothing where not all are.
template <class Values>
std::optional<double> median_of(const Values& values, std::optional<double> Values::value_type::* field) {
  std::vector<double> known;
  for (const auto& value : values) {
    if (value.*field) known.push_back(*(value.*field));
  }
  if (known.empty() || known.size() < values.size()) return std::nullopt;
  std::ranges::sort(known);
  const std::size_t middle = known.size() / 2;
  return known.size() % 2 == 1 ? known[middle] : (known[middle - 1] + known[middle]) / 2;
}

const char* words_of(ThrottleReason reason) {
  switch (reason) {
    case ThrottleReason::sw_thermal_slowdown:
    case ThrottleReason::hw_thermal_slowdown:
      return "heat";
    case ThrottleReason::sw_power_cap:
      return "its power limit";
    case ThrottleReason::hw_power_brake:
      return "the power supply";
    case ThrottleReason::sync_boost:
      return "a slower GPU of its group";
    default:
      return "its hardware";
  }
}

}  // namespace

/// What one GPU did within the window.
struct StragglerWatch::Means {
  Uuid uuid;
  GpuIndex place;
  std::optional<double> utilization;
  std::optional<double> power;
  std::optional<double> clock;
  std::optional<double> width;
  std::optional<double> max_width;
  std::vector<ThrottleReason> reasons;  ///< for most of the time
};

StragglerWatch::StragglerWatch(std::vector<Uuid> gpus, milliseconds window) : gpus_(std::move(gpus)), window_(window) {}

std::vector<Straggler> StragglerWatch::add(const facts::Snapshot& snapshot, Clock::SteadyTime when) {
  for (const facts::GpuRecord& record : snapshot.gpus) {
    if (std::ranges::find(gpus_, record.gpu.uuid) == gpus_.end() || !facts::is_usable(record)) continue;
    auto& moments = moments_[record.gpu.uuid];
    std::optional<std::uint32_t> width;
    if (record.gpu.pcie_width_max) width = static_cast<std::uint32_t>(record.gpu.pcie_width_max->value);
    moments.push_back({when, record.sample, width});
    places_[record.gpu.uuid] = record.gpu.index;
  }
  std::vector<Means> all;
  for (const Uuid& uuid : gpus_) {
    auto& moments = moments_[uuid];
    while (!moments.empty() && when - moments.front().when > window_) moments.pop_front();
    if (auto means = means_of(uuid)) all.push_back(std::move(*means));
  }
  std::vector<Straggler> found;
  for (const Means& one : all) {
    std::vector<Means> peers;
    std::ranges::copy_if(all, std::back_inserter(peers), [&](const Means& other) { return other.uuid != one.uuid; });
    if (told_.contains(one.uuid) || peers.empty()) continue;
    if (auto straggler = judge(one, peers)) {
      told_.insert(one.uuid);
      found.push_back(std::move(*straggler));
    }
  }
  return found;
}

std::optional<StragglerWatch::Means> StragglerWatch::means_of(const Uuid& uuid) const {
  const auto& moments = moments_.at(uuid);
  // Nothing is said before the window is full, nor of a few readings.
  if (moments.size() < kFewestReadings || moments.back().when - moments.front().when < window_ * 3 / 4)
    return std::nullopt;
  const auto number = [](const auto& value) {
    return value ? std::optional(static_cast<double>(value->value)) : std::nullopt;
  };
  Means means{.uuid = uuid, .place = places_.at(uuid)};
  means.utilization = mean_of(moments, [&](const Moment& one) { return number(one.sample.utilization_gpu); });
  means.power = mean_of(moments, [&](const Moment& one) { return number(one.sample.power); });
  means.clock = mean_of(moments, [&](const Moment& one) { return number(one.sample.clock_sm); });
  means.width = mean_of(moments, [&](const Moment& one) { return number(one.sample.pcie_width); });
  means.max_width = mean_of(moments, [&](const Moment& one) { return one.max_width; });
  std::map<ThrottleReason, std::size_t> seen;
  for (const Moment& one : moments) {
    if (!one.sample.throttle_reasons) continue;
    for (const ThrottleReason reason : *one.sample.throttle_reasons) seen[reason] += facts::is_slowdown(reason) ? 1 : 0;
  }
  for (const auto& [reason, times] : seen) {
    if (static_cast<double>(times) >= kMostOfTheTime * static_cast<double>(moments.size()) && times > 0)
      means.reasons.push_back(reason);
  }
  return means;
}

std::optional<Straggler> StragglerWatch::judge(const Means& one, const std::vector<Means>& peers) const {
  const auto load = median_of(peers, &Means::utilization);
  if (!load || *load < kPeersWork || !one.utilization) return std::nullopt;
  Straggler straggler{one.place, one.uuid, "", ""};
  const auto clock = median_of(peers, &Means::clock);
  const auto power = median_of(peers, &Means::power);
  const std::string time = format_duration(window_);
  if (clock && one.clock && *one.utilization >= kItselfWorks && *one.clock < kSlowClock * *clock) {
    straggler.evidence =
        fmt::format("SM clock {:.0f} MHz, the others' median {:.0f} MHz, for {}", *one.clock, *clock, time);
  } else if (power && one.power && *one.utilization < kLittleWork * *load && *one.power < kLittlePower * *power) {
    straggler.evidence =
        fmt::format("utilization {:.0f} %, the others' median {:.0f} %, for {}", *one.utilization, *load, time);
  } else {
    return std::nullopt;
  }
  std::vector<std::string> reasons;
  for (const ThrottleReason reason : one.reasons)
    reasons.push_back(fmt::format("{} ({})", words_of(reason), facts::to_string(reason)));
  const auto width = median_of(peers, &Means::width);
  const double wanted = one.max_width.value_or(width.value_or(0));
  if (one.width && *one.width < wanted && width && *one.width < *width)
    reasons.push_back(fmt::format("its PCIe link, {:.0f} of {:.0f} lanes", *one.width, wanted));
  straggler.reason = join(reasons, ", ");
  return straggler;
}

}  // namespace gpuwarden::launch
