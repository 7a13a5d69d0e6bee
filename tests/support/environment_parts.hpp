// SPDX-License-Identifier: Apache-2.0
// Whether the facts of a damaged text are among those of the whole one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::testing {

/// What `part` says and `whole` does not, as "path: value"; empty where there is nothing. Entries of a list are the
/// same where their names are, and may stand at other places.
std::string changed_facts(const facts::Environment& whole, const facts::Environment& part);

}  // namespace gpuwarden::testing
