// SPDX-License-Identifier: Apache-2.0
// `gpuwarden slurm doctor`: all nodes of a partition judged, and compared with each other.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

/// Exit code 1 where a node has an error, stands apart, or could not be looked at.
Result<int> examine_partition(const Context& context);

}  // namespace gpuwarden::cli
