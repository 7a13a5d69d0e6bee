// SPDX-License-Identifier: Apache-2.0
// A plan that rests on peaks measured at two or three micro-batch sizes. A step's peak is the largest of several terms
// affine in the micro-batch, so two points on one branch give slope and intercept; the plan tells where another branch
// takes over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/estimate.hpp"

namespace gpuwarden::planning {

/// torch.cuda.max_memory_allocated of a step at this micro-batch.
struct MeasuredPeak {
  std::uint32_t micro_batch = 0;
  Bytes peak{};
};

struct Calibration {
  double fixed = 0;       ///< bytes that do not grow
  double per_sample = 0;  ///< bytes for each sample of a micro-batch
  double factor = 1;      ///< by which the equations are corrected where they are used beyond the points
  /// Between the measured points: by the equations their peaks are at different moments, or the slope grew.
  bool branch_changed = false;
  bool slope_from_equations = false;  ///< the last two points lie on different branches: per_sample is computed
  double least = 0;                   ///< bytes: the peak of the branch before, where one was measured
  /// The smallest micro-batch above the measured ones at which another moment becomes the peak, by the equations.
  std::optional<std::uint32_t> branch_changes_at;
  std::vector<MeasuredPeak> points;  ///< as measured, smallest micro-batch first
  std::string note;                  ///< what was concluded, a sentence

  /// The line of the last branch, bytes: through its last two points, or through its only one.
  double line_at(double micro_batch) const { return fixed + per_sample * micro_batch; }
};

/// Fails with invalid_argument on fewer than two points or more than three, on points of the same micro-batch, of 0, on
/// peaks that shrink while the micro-batch grows, and on those whose line leaves less for what does not grow with the
/// micro-batch than the weights alone take: they were not measured with these settings.
Result<Calibration> calibrate(const ModelFigures& model, const Settings& settings,
                              std::span<const MeasuredPeak> points);

/// Which recomputation the peaks were most likely measured with, where nobody says: the one whose growth between the
/// first and the last micro-batch is nearest to the measured one by the equations; of equal ones (within 16 MiB a
/// sample) the one whose peak is nearest. Selective is one of Megatron and torchtitan alone. Fails as calibrate() does
/// on points that determine nothing.
Result<Recompute> nearest_recomputation(const ModelFigures& model, const Settings& settings,
                                        std::span<const MeasuredPeak> points);

/// The estimate of `settings` with its allocated peak corrected: at a measured micro-batch what was measured; else the
/// line, or beyond a change of branch the equations times the factor, whichever is more; never less than `least`, and
/// between two measured ones never more than their chord, since a largest of affine terms is convex. The uncertainty
/// shrinks to 3% on a measured line, and to 8% beyond it and where its slope is computed.
Result<Estimate> calibrated(const ModelFigures& model, const Settings& settings, const Calibration& calibration);

}  // namespace gpuwarden::planning
