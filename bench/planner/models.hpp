// SPDX-License-Identifier: Apache-2.0
// The models that published measurements name, in whatever way they write them.
#pragma once

#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::bench {

/// The shape of a named model; where the name says nothing, a Llama-like shape of `parameters` parameters. Fails with
/// not_found where neither is known.
Result<planning::ModelShape> model_named(std::string_view name, double parameters);

}  // namespace gpuwarden::bench
