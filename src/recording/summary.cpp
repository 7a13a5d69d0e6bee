// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/summary.hpp"

#include <algorithm>
#include <cmath>

#include "gpuwarden/recording/watch.hpp"

namespace gpuwarden::recording {
namespace {

using std::chrono::milliseconds;
using telemetry::Happening;
using telemetry::Point;
using telemetry::Series;
using telemetry::Statistics;

double ratio_of(milliseconds part, milliseconds whole) {
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

/// The last value of a metric that hardly changes.
std::optional<double> last_of(const GpuHistory& history, std::string_view metric) {
  const Series* series = history.find(metric);
  return series == nullptr ? std::nullopt : std::optional(series->points.back().max);
}

void add_idle(const GpuHistory& history, GpuSummary& gpu) {
  const Series* utilization = history.find("utilization");
  if (utilization == nullptr) return;
  milliseconds idle{};
  Stretch longest;
  std::optional<Stretch> running;
  for_each_stretch(*utilization, [&](const Point& point, milliseconds lasted) {
    if (point.mean > kIdlePercent) {
      running.reset();
      return;
    }
    idle += lasted;
    if (!running) running = Stretch{point.time, {}};
    running->lasted += lasted;
    if (running->lasted > longest.lasted) longest = *running;
  });
  gpu.idle = idle;
  if (longest.lasted > milliseconds(0)) gpu.longest_idle = longest;
}

/// Holes in the longest series: a metric alone may be one that the GPU tells seldom.
void add_gaps(const GpuHistory& history, GpuSummary& gpu) {
  const Series* most = nullptr;
  for (const auto& [metric, series] : history.series) {
    if (most == nullptr || series.points.size() > most->points.size()) most = &series;
  }
  if (most == nullptr) return;
  const auto& points = most->points;
  const milliseconds step = std::max(most->step, usual_step(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    gpu.readings += points[i].readings;
    if (i == 0) continue;
    const auto apart = std::chrono::duration_cast<milliseconds>(points[i].time - points[i - 1].time);
    if (apart <= 3 * step) continue;
    ++gpu.gaps;
    gpu.gap_time += apart - step;
  }
}

void add_throttling(const ThrottleTimes& times, GpuSummary& gpu) {
  const bool known = times.covered > milliseconds(0);
  if (known) gpu.throttled_share = ratio_of(times.any, times.covered);
  for (const auto& [reason, time] : times.by_reason)
    gpu.throttling.push_back({reason, time, known ? ratio_of(time, times.covered) : 0});
  std::ranges::stable_sort(gpu.throttling, std::ranges::greater{}, &ThrottleShare::time);
}

bool is_trouble(const Happening& happening) { return happening.kind == kLostKind || happening.kind == kFailedKind; }

/// The last trouble that a GPU did not come back from.
std::optional<Happening> loss_of(const Uuid& gpu, const std::vector<Happening>& happenings) {
  std::optional<Happening> lost;
  for (const Happening& happening : happenings) {
    if (happening.gpu != gpu) continue;
    if (happening.kind == kBackKind) lost.reset();
    if (is_trouble(happening) && !lost) lost = happening;
  }
  return lost;
}

/// A sum that is unknown as soon as one part is.
void add_up(std::optional<double>& sum, const std::optional<double>& part) {
  if (sum && part)
    *sum += *part;
  else
    sum.reset();
}

template <class T>
void keep_largest(std::optional<T>& largest, const T& value) {
  if (!largest || value > *largest) largest = value;
}

/// A part of a figure; nothing where it is not known.
std::optional<double> part_of(const Statistics* figure, double Statistics::* part) {
  const bool known = figure != nullptr && !std::isnan(figure->*part);
  return known ? std::optional(figure->*part) : std::nullopt;
}

void add_peaks(const GpuSummary& gpu, Totals& totals) {
  if (const auto memory = part_of(gpu.figure("memory_used"), &Statistics::max))
    keep_largest(totals.peak_memory, Bytes(static_cast<std::uint64_t>(std::max(0.0, *memory))));
  if (const auto celsius = part_of(gpu.figure("temperature"), &Statistics::max))
    keep_largest(totals.peak_temperature, *celsius);
}

/// What is known counts: one GPU that is lost does not take the others' energy away.
void add_energy(const GpuSummary& gpu, Totals& totals) {
  if (!gpu.energy) {
    ++totals.without_energy;
    return;
  }
  totals.joules = totals.joules.value_or(0) + gpu.energy->joules;
  totals.joules_are_estimate = totals.joules_are_estimate || !gpu.energy->from_counter;
}

/// A mean over GPUs of a value between 0 and 1, or percent, by the time for which each is known.
class SharedMean {
 public:
  void add(const std::optional<double>& value, milliseconds time) {
    if (!value || time <= milliseconds(0)) return;
    sum_ += *value * static_cast<double>(time.count());
    time_ += static_cast<double>(time.count());
  }
  std::optional<double> mean() const { return time_ > 0 ? std::optional(sum_ / time_) : std::nullopt; }

 private:
  double sum_ = 0;
  double time_ = 0;
};

std::optional<double> mean_of(const Statistics* figure) { return part_of(figure, &Statistics::mean); }

}  // namespace

const Statistics* GpuSummary::figure(std::string_view metric) const {
  const auto found = figures.find(metric);
  return found == figures.end() ? nullptr : &found->second;
}

milliseconds GpuSummary::watched() const {
  const Statistics* utilization = figure("utilization");
  return utilization == nullptr ? milliseconds(0) : utilization->covered;
}

std::optional<bool> GpuSummary::used() const {
  const auto mean = mean_of(figure("utilization"));
  return mean ? std::optional(*mean >= kUsedPercent) : std::nullopt;
}

std::optional<double> GpuSummary::idle_share() const {
  if (!idle || watched() <= milliseconds(0)) return std::nullopt;
  return std::min(1.0, ratio_of(*idle, watched()));
}

std::optional<double> GpuSummary::peak_memory_share() const {
  const auto memory = part_of(figure("memory_used"), &Statistics::max);
  if (!memory || !memory_total || memory_total->value == 0) return std::nullopt;
  return *memory / static_cast<double>(memory_total->value);
}

milliseconds Summary::duration() const { return std::chrono::duration_cast<milliseconds>(window.to - window.from); }

GpuSummary summarize(const GpuHistory& history) {
  GpuSummary gpu;
  gpu.index = history.gpu.index;
  gpu.uuid = history.gpu.uuid;
  gpu.name = history.gpu.name;
  if (const auto total = last_of(history, "memory_total"); total && *total > 0)
    gpu.memory_total = Bytes(static_cast<std::uint64_t>(*total));
  gpu.power_limit = last_of(history, "power_limit");
  for (const Figure& figure : figures()) {
    const Series* series = history.find(figure.metric);
    if (series == nullptr) continue;
    if (auto statistics = telemetry::statistics_of(*series)) gpu.figures.emplace(figure.metric, *statistics);
  }
  static const Series kNothing;
  const Series* power = history.find(kPowerForEnergy);
  if (power == nullptr) power = history.find("power");
  const Series* counter = history.find("energy");
  gpu.energy = telemetry::energy_of(power == nullptr ? kNothing : *power, counter == nullptr ? kNothing : *counter);
  add_idle(history, gpu);
  add_gaps(history, gpu);
  add_throttling(history.throttling, gpu);
  return gpu;
}

Summary summarize(const Recording& recording) {
  Summary summary;
  summary.info = recording.info;
  summary.window = recording.window;
  summary.held = recording.held;
  for (const GpuHistory& history : recording.gpus) {
    GpuSummary gpu = summarize(history);
    gpu.lost = loss_of(gpu.uuid, recording.happenings);
    summary.gpus.push_back(std::move(gpu));
  }
  summary.users = telemetry::sum_up(recording.uses, telemetry::UseBy::user);
  summary.jobs = telemetry::sum_up(recording.uses, telemetry::UseBy::job);
  for (const Happening& happening : recording.happenings) {
    if (happening.kind != kThrottleKind && happening.kind != kHeldKind) summary.happenings.push_back(happening);
  }
  summary.waste = judge_waste(summary);
  return summary;
}

Totals totals_of(const Summary& summary) {
  Totals totals;
  totals.mean_watts = 0;
  totals.used = 0;
  SharedMean utilization;
  SharedMean idle;
  SharedMean throttled;
  for (const GpuSummary& gpu : summary.gpus) {
    const milliseconds watched = gpu.watched();
    totals.gpu_time += watched;
    // A moment's readings have no length, but are figures all the same.
    utilization.add(mean_of(gpu.figure("utilization")), std::max(watched, milliseconds(1)));
    idle.add(gpu.idle_share(), watched);
    throttled.add(gpu.throttled_share, std::max(watched, milliseconds(1)));
    add_energy(gpu, totals);
    add_up(totals.mean_watts, mean_of(gpu.figure("power")));
    add_peaks(gpu, totals);
    const auto used = gpu.used();
    if (!used) totals.used.reset();
    if (totals.used && *used) ++*totals.used;
  }
  if (summary.gpus.empty()) totals = {};
  totals.mean_utilization = utilization.mean();
  totals.idle_share = idle.mean();
  totals.throttled_share = throttled.mean();
  return totals;
}

}  // namespace gpuwarden::recording
