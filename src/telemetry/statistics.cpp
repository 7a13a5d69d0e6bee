// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gpuwarden::telemetry {
namespace {

constexpr int kLongestHold = 3;  // steps
/// The most that a board draws (facts' range of `power`): what a counter that began anew may have gained.
constexpr double kMostWatts = 5000;
/// Some firmware counts millijoules in 32 bits.
constexpr double kWrapJoules = 4294967296.0 / 1000;

using Nanoseconds = std::chrono::duration<double, std::nano>;
using Seconds = std::chrono::duration<double>;

/// The series' step; of readings as they came the middle one of the times between them, one second where there is one.
Nanoseconds usual_step(const Series& series) {
  if (series.step.count() > 0) return series.step;
  std::vector<Nanoseconds> steps;
  for (std::size_t i = 1; i < series.points.size(); ++i)
    steps.emplace_back(series.points[i].time - series.points[i - 1].time);
  if (steps.empty()) return Seconds(1);
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return std::max(*middle, Nanoseconds(1));
}

/// What each point stands for: the time until the next; one step before a gap and at the end.
std::vector<Nanoseconds> weights_of(const Series& series) {
  const Nanoseconds step = usual_step(series);
  std::vector<Nanoseconds> weights(series.points.size(), step);
  for (std::size_t i = 0; i + 1 < series.points.size(); ++i) {
    const Nanoseconds next = series.points[i + 1].time - series.points[i].time;
    if (next <= kLongestHold * step) weights[i] = next;
  }
  return weights;
}

std::chrono::milliseconds in_milliseconds(Nanoseconds time) {
  return std::chrono::round<std::chrono::milliseconds>(time);
}

struct Weighted {
  double value = 0;
  double weight = 0;
};

/// The least value below or at which `share` of all weight lies (the inverse of the weighted distribution function,
/// definition 1 of Hyndman and Fan, The American Statistician 50:361, 1996, with weights for counts).
double percentile(const std::vector<Weighted>& sorted, double total, double share) {
  double below = 0;
  for (const Weighted& entry : sorted) {
    below += entry.weight;
    if (below >= share * total) return entry.value;
  }
  return sorted.back().value;
}

/// What a counter that fell has gained: to the end of 32 bits and from 0 where no more than the board can draw comes
/// out, else what it shows since it began anew.
double gain_after_fall(double before, double now, Nanoseconds time) {
  const double wrapped = kWrapJoules - before + now;
  if (before <= kWrapJoules && wrapped <= kMostWatts * Seconds(time).count()) return wrapped;
  return now;
}

struct Gains {
  double all = 0;
  double without_gaps = 0;  ///< of what passed while readings were made
};

/// Sums up what a counter gained. In a step with a fall inside, what is above the last value came before it, and what
/// the step's least value shows after it.
Gains gains_of(const Series& counter) {
  Gains gains;
  const Nanoseconds longest = kLongestHold * usual_step(counter);
  double last = counter.points.front().max;
  gains.all = gains.without_gaps = counter.points.front().max - counter.points.front().min;
  for (std::size_t i = 1; i < counter.points.size(); ++i) {
    const Point& point = counter.points[i];
    const Nanoseconds time = point.time - counter.points[i - 1].time;
    double gain = point.max - last;
    double next = point.max;
    if (point.min < last && point.max < last) {
      gain = gain_after_fall(last, point.min, time) + point.max - point.min;
    } else if (point.min < last) {
      gain = point.max - last + point.min;
      next = point.min;
    }
    last = next;
    gains.all += gain;
    if (time <= longest) gains.without_gaps += gain;
  }
  return gains;
}

/// The trapezoidal rule between readings that are at most three steps apart. Steps of time stand for themselves: their
/// mean times their length is the integral already.
double integral_of(const Series& power) {
  double joules = 0;
  if (power.step.count() > 0) {
    const auto weights = weights_of(power);
    for (std::size_t i = 0; i < weights.size(); ++i) joules += power.points[i].mean * Seconds(weights[i]).count();
    return joules;
  }
  const Nanoseconds longest = kLongestHold * usual_step(power);
  for (std::size_t i = 1; i < power.points.size(); ++i) {
    const Nanoseconds time = power.points[i].time - power.points[i - 1].time;
    if (time <= longest) joules += (power.points[i].mean + power.points[i - 1].mean) / 2 * Seconds(time).count();
  }
  return joules;
}

}  // namespace

std::optional<Statistics> statistics_of(const Series& series) {
  if (series.points.empty()) return std::nullopt;
  const auto weights = weights_of(series);
  Statistics result{.min = std::numeric_limits<double>::infinity(), .max = -std::numeric_limits<double>::infinity()};
  std::vector<Weighted> sorted;
  Nanoseconds covered{};
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Point& point = series.points[i];
    result.readings += point.readings;
    result.min = std::min(result.min, point.min);
    result.max = std::max(result.max, point.max);
    sum += point.mean * weights[i].count();
    covered += weights[i];
    sorted.push_back({point.mean, weights[i].count()});
  }
  std::ranges::sort(sorted, {}, &Weighted::value);
  result.mean = std::clamp(sum / covered.count(), result.min, result.max);
  result.p50 = percentile(sorted, covered.count(), 0.50);
  result.p95 = percentile(sorted, covered.count(), 0.95);
  result.p99 = percentile(sorted, covered.count(), 0.99);
  result.covered = in_milliseconds(covered);
  return result;
}

std::chrono::milliseconds time_above(const Series& series, double threshold) {
  const auto weights = weights_of(series);
  Nanoseconds above{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (series.points[i].mean > threshold) above += weights[i];
  }
  return in_milliseconds(above);
}

std::optional<Energy> energy_of(const Series& power, const Series& counter) {
  const bool integrates = power.points.size() >= 2;
  if (counter.points.size() < 2) {
    if (!integrates) return std::nullopt;
    return Energy{.joules = integral_of(power), .from_counter = false, .integral_to_counter = {}};
  }
  const Gains gains = gains_of(counter);
  Energy result{.joules = gains.all, .from_counter = true, .integral_to_counter = {}};
  if (integrates && gains.without_gaps > 0) result.integral_to_counter = integral_of(power) / gains.without_gaps;
  return result;
}

}  // namespace gpuwarden::telemetry
