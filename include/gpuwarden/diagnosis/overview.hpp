// SPDX-License-Identifier: Apache-2.0
// A diagnosis at a glance: what its causes have in common.
#pragma once

#include <cstddef>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// How many of the causes stand for failures of their own. Others may be further guesses at the same failure: of one
/// area, of the same line, or hardly likely.
std::size_t independent_failures(const Diagnosis& diagnosis);

/// The evidence of a cause, a line that several rules fit once.
std::vector<const Evidence*> distinct_evidence(const Cause& cause);

}  // namespace gpuwarden::diagnosis
