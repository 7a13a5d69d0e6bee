// SPDX-License-Identifier: Apache-2.0
// A diagnosis at a glance: what its causes have in common.
#pragma once

#include <cstddef>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// A cause of less confidence is hardly likely.
inline constexpr double kLikelyCause = 0.4;

/// How many of the causes stand for failures of their own. Others may be further guesses at the same failure: of one
/// area, of the same line, or hardly likely. A cause whose id is not known counts as none: nothing tells its area.
std::size_t independent_failures(const Diagnosis& diagnosis);

/// The evidence of a cause, a line that several rules fit once.
std::vector<const Evidence*> distinct_evidence(const Cause& cause);

}  // namespace gpuwarden::diagnosis
