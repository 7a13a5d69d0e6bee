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

// bench/diagnose_corpus --calibrate prints these lines (docs/diagnose.md, "How sure").
constexpr auto kPoints = std::to_array<Point>({
    {0, 0},
    {1, 1},
});

}  // namespace

double calibrated(double weight) {
  const auto above = std::ranges::lower_bound(kPoints, weight, {}, &Point::weight);
  if (above == kPoints.end()) return kPoints.back().right;
  if (above == kPoints.begin()) return above->right;
  const Point& below = *std::prev(above);
  return std::lerp(below.right, above->right, (weight - below.weight) / (above->weight - below.weight));
}

}  // namespace gpuwarden::diagnosis
