// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace gpuwarden::diagnosis {
namespace {

struct Point {
  double weight;
  double right;  ///< share of the first causes of about this weight that were right
};

// Rises from point to point. bench/diagnose_corpus --calibrate prints these lines (docs/diagnose.md, "How sure").
constexpr auto kPoints = std::to_array<Point>({
    {0, 0},
    {1, 1},
});

/// Between the points straight lines; beyond them the first and the last.
double interpolated(double at, double Point::* from, double Point::* to) {
  const auto above = std::ranges::lower_bound(kPoints, at, {}, from);
  if (above == kPoints.end()) return kPoints.back().*to;
  if (above == kPoints.begin()) return (*above).*to;
  const Point& below = *std::prev(above);
  return std::lerp(below.*to, (*above).*to, (at - below.*from) / ((*above).*from - below.*from));
}

}  // namespace

double calibrated(double weight) { return interpolated(weight, &Point::weight, &Point::right); }
double weight_of(double confidence) { return interpolated(confidence, &Point::right, &Point::weight); }

}  // namespace gpuwarden::diagnosis
