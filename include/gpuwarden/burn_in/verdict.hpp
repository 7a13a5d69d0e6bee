// SPDX-License-Identifier: Apache-2.0
// Whether GPUs are as good as they should be, by what a run measured. Pure.
#pragma once

#include "gpuwarden/facts/burn_in.hpp"

namespace gpuwarden::burn_in {

/// Below the least that a sound GPU reaches; false where that is not known.
bool is_low(const facts::BurnInFigure& figure);

enum class Verdict {
  sound,         ///< something was measured, and nothing was low, wrong or broken off
  faulty,        ///< nothing was measured, or something is the matter
  not_possible,  ///< CUDA is not there, or does not start
};
Verdict verdict_of(const facts::BurnInRun& run);

}  // namespace gpuwarden::burn_in
