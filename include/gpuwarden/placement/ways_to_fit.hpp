// SPDX-License-Identifier: Apache-2.0
// What to do about a model that does not fit.
#pragma once

#include <string>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {

/// Which disabled GPUs stand in the way of a request that waiting does not help, and the command that puts them back;
/// empty where none do.
std::string ways_to_enable(const Decision& decision);

/// What to do where waiting may help: to wait (`waiting` says how), or to end first what is left of runs that nobody
/// looks after, since that may hold its GPUs for ever.
std::string ways_to_wait(const Decision& decision, const std::string& waiting);

/// ways_to_enable(), or what would make the request's model fit that does not, cheapest first, a line each, as a hint
/// says it; empty where the request has no model, where waiting is enough, and where fewer GPUs can be had than were
/// asked for.
std::string ways_to_fit(const Request& request, const Inputs& inputs, const Decision& decision);

}  // namespace gpuwarden::placement
