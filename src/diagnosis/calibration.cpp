// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/calibration.hpp"

#include <cmath>

namespace gpuwarden::diagnosis {
namespace {

// bench/diagnose_corpus --calibrate prints these two (docs/diagnose.md, "How sure").
constexpr double kIntercept = -1.099;
constexpr double kSlope = 5.024;

}  // namespace

double calibrated(double weight) { return 1 / (1 + std::exp(-(kIntercept + kSlope * weight))); }

double weight_of(double confidence) { return (std::log(confidence / (1 - confidence)) - kIntercept) / kSlope; }

}  // namespace gpuwarden::diagnosis
