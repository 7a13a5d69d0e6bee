// SPDX-License-Identifier: Apache-2.0
// The profiler of this process, which gpuwarden.profile measures with.
#pragma once

#include "gpuwarden/profile/profiler.hpp"

namespace gpuwarden::python {

/// Another one in a forked child; never destroyed.
profile::Profiler& own_profiler();

}  // namespace gpuwarden::python
