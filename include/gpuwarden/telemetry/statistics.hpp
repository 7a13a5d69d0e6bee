// SPDX-License-Identifier: Apache-2.0
// Sums up stretches of history. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "gpuwarden/telemetry/history.hpp"

namespace gpuwarden::telemetry {

/// Over a window, weighted by time: each point counts until the next; before a gap of more than three steps, and at the
/// end, for one step, so that gaps count for nothing. The step of readings as they came is the median of the times
/// between them. A percentile is the least value at or below which that share of the time lies (of steps, by their
/// means).
struct Statistics {
  unsigned readings = 0;
  double min = 0;
  double mean = 0;
  double max = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  std::chrono::milliseconds covered{};  ///< time that readings stand for
};
/// Nothing for a series without points.
std::optional<Statistics> statistics_of(const Series& series);

/// How long the metric was above the threshold, weighted as Statistics; a step counts by its mean.
std::chrono::milliseconds time_above(const Series& series, double threshold);

/// Energy over a window, in joules.
struct Energy {
  double joules = 0;
  bool from_counter = false;  ///< by the GPU's own counter; else power integrated by the trapezoidal rule
  /// Both are known: the integral's share of the counter's figure, for a sight of how good either is.
  std::optional<double> integral_to_counter;
};
/// From the GPU's counter where it has one, gaps included: it goes on counting. A counter that falls began anew: what
/// it shows then was used since; where it stood below 2^32 mJ and the rest up to there fits what a board can draw (5
/// kW), it wrapped. Else from its power, by the trapezoidal rule between readings at most three steps apart, or as the
/// sum of mean times length of steps. Nothing where neither has two points.
std::optional<Energy> energy_of(const Series& power, const Series& counter);

}  // namespace gpuwarden::telemetry
