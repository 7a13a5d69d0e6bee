// SPDX-License-Identifier: Apache-2.0
// A diagnosis at a glance: what its causes have in common.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// A cause of less weight (weight_among) is hardly likely.
inline constexpr double kLikelyCause = 0.4;

/// The weight, 0 to 1, that rules and facts give a cause of these, the likeliest of which stands first. Thresholds are
/// of weights: the first cause's confidence is read off a curve, the others' only follow it in proportion
/// (docs/diagnose.md, "How sure"), so that one confidence is one weight in one diagnosis and another in the next.
double weight_among(const Diagnosis& diagnosis, const Cause& cause);

/// How many of the causes stand for failures of their own. Others may be further guesses at the same failure: of one
/// area, of the same line, or hardly likely. A cause whose id is not known counts as none: nothing tells its area.
std::size_t independent_failures(const Diagnosis& diagnosis);

/// The evidence of a cause, a line that several rules fit once.
std::vector<const Evidence*> distinct_evidence(const Cause& cause);

/// What is known of a failure that has nothing to do with GPUs.
struct PlainAdvice {
  std::string says;              ///< what its line means; empty: nothing is known
  std::vector<std::string> fix;  ///< what helps, in the order in which it is worth trying
};

/// Of the plain failure of the diagnosis, where there is one.
PlainAdvice plain_advice(const Diagnosis& diagnosis);

}  // namespace gpuwarden::diagnosis
