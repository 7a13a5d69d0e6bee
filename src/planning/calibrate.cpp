// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace gpuwarden::planning {

namespace {

constexpr std::uint32_t kFarthest = 1024;  ///< micro-batches looked at for another branch

Result<std::vector<MeasuredPeak>> sorted_points(std::span<const MeasuredPeak> points) {
  if (points.size() < 2 || points.size() > 3) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} measured peaks", points.size()),
                "measure at two or three micro-batch sizes, for instance 1 and 2");
  }
  std::vector<MeasuredPeak> sorted(points.begin(), points.end());
  std::ranges::sort(sorted, {}, &MeasuredPeak::micro_batch);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i].micro_batch == 0 || sorted[i].peak.value == 0) {
      return fail(ErrorCode::invalid_argument, "a measured peak has micro-batch or memory 0", "give micro-batch=GiB");
    }
    if (i == 0) continue;
    if (sorted[i].micro_batch == sorted[i - 1].micro_batch) {
      return fail(ErrorCode::invalid_argument, fmt::format("micro-batch {} is given twice", sorted[i].micro_batch),
                  "measure at different sizes");
    }
    if (sorted[i].peak < sorted[i - 1].peak) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the peak at micro-batch {} is below that at {}", sorted[i].micro_batch,
                              sorted[i - 1].micro_batch),
                  "measure again, each size in a fresh process");
    }
  }
  return sorted;
}

double slope(const MeasuredPeak& a, const MeasuredPeak& b) {
  return (static_cast<double>(b.peak.value) - static_cast<double>(a.peak.value)) / (b.micro_batch - a.micro_batch);
}

Result<Estimate> at(const ModelFigures& model, Settings settings, std::uint32_t micro_batch) {
  settings.micro_batch = micro_batch;
  return estimate(model, settings);
}

/// By how much a moment grows with one more sample, by the equations; at the micro-batch `batch`.
Result<double> growth_of(const ModelFigures& model, const Settings& settings, MomentKind kind, std::uint32_t batch) {
  GPUWARDEN_TRY(const Estimate here, at(model, settings, batch));
  GPUWARDEN_TRY(const Estimate next, at(model, settings, batch + 1));
  const auto total = [kind](const Estimate& estimate) {
    for (std::size_t i = 0; i < estimate.moment_count; ++i) {
      if (estimate.moments[i].kind == kind) return estimate.moments[i].total();
    }
    return estimate.allocated;
  };
  return total(next) - total(here);
}

double in_gib(double bytes) { return bytes / kBytesPerGiB; }

/// The equations' weights on the GPU at the moment that holds the fewest.
double least_weights(const Estimate& estimate) {
  double least = estimate.peak_moment().at(Use::weights);
  for (std::size_t i = 0; i < estimate.moment_count; ++i) least = std::min(least, estimate.moments[i].at(Use::weights));
  return least;
}

/// What does not grow holds the weights, whatever else it holds. A growth that is only computed yields to that; a
/// measured one was measured with other settings.
Result<void> check_fixed(const Estimate& there, const MeasuredPeak& last, Calibration& line) {
  constexpr double kNearly = 0.95;  // of peaks, the last percents are not known either
  constexpr double kNoise = 0.05;   // two peaks that are a few percents off move their line's foot by as much
  constexpr std::string_view kHint =
      "give the model, strategy, precision and recomputation that were measured, and peaks in GiB";
  const double weights = least_weights(there);
  const auto peak = static_cast<double>(last.peak.value);
  if (peak < kNearly * weights)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the peak measured at micro-batch {}, {:.2f} GiB, is less than the weights alone take on each "
                    "GPU, {:.2f} GiB",
                    last.micro_batch, in_gib(peak), in_gib(weights)),
        std::string(kHint));
  if (line.slope_from_equations && line.fixed < weights) {
    line.per_sample = std::max(0.0, peak - weights) / last.micro_batch;
    line.fixed = peak - line.per_sample * last.micro_batch;
    line.note += ", less what the weights need";
  }
  if (line.fixed >= kNearly * weights - kNoise * peak) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("the measured peaks leave {:.2f} GiB for what does not grow with the micro-batch (they grow by "
                  "{:.2f} GiB a sample); the weights alone take {:.2f} GiB on each GPU",
                  in_gib(line.fixed), in_gib(line.per_sample), in_gib(weights)),
      std::string(kHint));
}

/// A step's peak is a largest of affine terms: its growth never falls.
std::string slower_growth(std::span<const MeasuredPeak> sorted) {
  if (sorted.size() < 3) return "";
  const double first = slope(sorted[0], sorted[1]);
  const double second = slope(sorted[1], sorted[2]);
  if (second >= 0.9 * first - 1e7) return "";
  return fmt::format(
      "; from micro-batch {} on a sample adds {:.2f} GiB after {:.2f} before, though no step's growth "
      "falls: measure each in a fresh process",
      sorted[1].micro_batch, in_gib(second), in_gib(first));
}

/// The line through the last two points, or through the last alone where the peak before it was at another moment.
Result<void> draw_line(const ModelFigures& model, const Settings& settings, std::span<const MeasuredPeak> sorted,
                       Calibration& result) {
  const MeasuredPeak& last = sorted.back();
  const MeasuredPeak& before = sorted[sorted.size() - 2];
  GPUWARDEN_TRY(const Estimate there, at(model, settings, last.micro_batch));
  const MomentKind kind = there.peak_moment().kind;
  result.per_sample = slope(before, last);
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    GPUWARDEN_TRY(const Estimate other, at(model, settings, sorted[i].micro_batch));
    const MomentKind earlier = other.peak_moment().kind;
    if (earlier == kind) continue;
    result.branch_changed = true;
    result.note = fmt::format("; the peak is at {} at micro-batch {}, but at {} at {}", to_string(earlier),
                              sorted[i].micro_batch, to_string(kind), last.micro_batch);
    if (i + 2 < sorted.size()) continue;
    GPUWARDEN_TRY(result.per_sample, growth_of(model, settings, kind, last.micro_batch));
    result.least = static_cast<double>(before.peak.value);
    result.slope_from_equations = true;
    result.note += ": the growth for each sample is the equations'";
  }
  result.fixed = static_cast<double>(last.peak.value) - result.per_sample * last.micro_batch;
  return check_fixed(there, last, result);
}

/// What was measured around this micro-batch: the least and the most that its peak can be.
struct Bracket {
  double least = 0;
  double most = 1e30;
};
Bracket bracket(std::span<const MeasuredPeak> points, std::uint32_t micro_batch) {
  Bracket result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto peak = static_cast<double>(points[i].peak.value);
    if (points[i].micro_batch <= micro_batch) result.least = peak;
    if (points[i].micro_batch < micro_batch) continue;
    result.most = peak;
    if (i > 0 && points[i].micro_batch > micro_batch)
      result.most -= slope(points[i - 1], points[i]) * (points[i].micro_batch - micro_batch);
    break;
  }
  return result;
}

}  // namespace

Result<Calibration> calibrate(const ModelFigures& model, const Settings& settings,
                              std::span<const MeasuredPeak> points) {
  GPUWARDEN_TRY(const std::vector<MeasuredPeak> sorted, sorted_points(points));
  const MeasuredPeak& last = sorted.back();
  Calibration result{.points = sorted};
  GPUWARDEN_CHECK(draw_line(model, settings, sorted, result));
  const std::string moved = std::move(result.note);
  GPUWARDEN_TRY(const Estimate there, at(model, settings, last.micro_batch));
  result.factor = static_cast<double>(last.peak.value) / std::max(1.0, there.allocated);
  if (sorted.size() == 3 && !result.branch_changed) {
    const double first = slope(sorted[0], sorted[1]);
    result.branch_changed = result.per_sample > 1.02 * first + 1e6;
  }
  const MomentKind kind = there.peak_moment().kind;
  for (std::uint32_t batch = last.micro_batch + 1; batch <= kFarthest; ++batch) {
    GPUWARDEN_TRY(const Estimate farther, at(model, settings, batch));
    if (farther.peak_moment().kind == kind) continue;
    result.branch_changes_at = batch;
    break;
  }
  const std::string moment(to_string(kind));
  if (result.branch_changes_at) {
    result.note = fmt::format(
        "the peak is at {} up to micro-batch {}; from {} on it is elsewhere, and grows as the "
        "equations say, times {:.2f}",
        moment, *result.branch_changes_at - 1, *result.branch_changes_at, result.factor);
  } else {
    result.note =
        fmt::format("{:.2f} GiB and {:.2f} GiB for each sample", in_gib(result.fixed), in_gib(result.per_sample));
  }
  result.note += moved;
  if (result.branch_changed && moved.empty())
    result.note += "; between the measured sizes the peak moved to another moment";
  result.note += slower_growth(sorted);
  return result;
}

Result<Recompute> nearest_recomputation(const ModelFigures& model, const Settings& settings,
                                        std::span<const MeasuredPeak> points) {
  constexpr double kAlike = 16 << 20;
  GPUWARDEN_TRY(const std::vector<MeasuredPeak> sorted, sorted_points(points));
  const MeasuredPeak& first = sorted.front();
  const MeasuredPeak& last = sorted.back();
  const double measured = slope(first, last);
  Recompute nearest = settings.recompute;
  double least_growth = 0;
  double least_level = 0;
  bool found = false;
  const bool selects = settings.framework == Framework::megatron || settings.framework == Framework::torchtitan;
  for (const Recompute recompute : {Recompute::full, Recompute::selective, Recompute::none}) {
    if (recompute == Recompute::selective && !selects) continue;
    Settings tried = settings;
    tried.recompute = recompute;
    GPUWARDEN_TRY(const Estimate low, at(model, tried, first.micro_batch));
    GPUWARDEN_TRY(const Estimate high, at(model, tried, last.micro_batch));
    const double growth =
        std::abs((high.allocated - low.allocated) / (last.micro_batch - first.micro_batch) - measured);
    const double level = std::abs(high.allocated - static_cast<double>(last.peak.value));
    const bool alike = found && std::abs(growth - least_growth) <= kAlike;
    if (found && !(alike ? level < least_level : growth < least_growth)) continue;
    nearest = recompute;
    least_growth = growth;
    least_level = level;
    found = true;
  }
  return nearest;
}

Result<Estimate> calibrated(const ModelFigures& model, const Settings& settings, const Calibration& calibration) {
  GPUWARDEN_TRY(Estimate result, estimate(model, settings));
  const double line = calibration.line_at(settings.micro_batch);
  const bool beyond = calibration.branch_changes_at && settings.micro_batch >= *calibration.branch_changes_at;
  double corrected = beyond ? std::max(line, result.allocated * calibration.factor) : line;
  const Bracket measured = bracket(calibration.points, settings.micro_batch);
  corrected = std::clamp(std::max(corrected, calibration.least), measured.least, measured.most);
  if (result.allocated > 0) result.reserve *= corrected / result.allocated;
  result.allocated = corrected;
  result.more_share = 0;
  result.more_bytes = 0;
  result.uncertainty = beyond || calibration.slope_from_equations ? 0.08 : 0.03;
  return result;
}

}  // namespace gpuwarden::planning
