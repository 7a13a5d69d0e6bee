// SPDX-License-Identifier: Apache-2.0
// Several reports of one machine's software become one.
#pragma once

#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::capture {

/// Adds what `part` knows and `whole` does not; where both know, `whole` stays (the first report wins). Lists are
/// joined without repeating.
void merge(facts::Environment& whole, facts::Environment part);

}  // namespace gpuwarden::capture
