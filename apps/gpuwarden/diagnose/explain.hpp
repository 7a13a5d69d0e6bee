// SPDX-License-Identifier: Apache-2.0
// gpuwarden diagnose --list and --explain: what is known about causes of failure.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

/// Every cause, by area.
Result<int> list_causes(const Context& context);

/// One cause, an Xid, or what a line of a log means. The answer "no" where nothing is known about it.
Result<int> explain(const Context& context);

}  // namespace gpuwarden::cli
