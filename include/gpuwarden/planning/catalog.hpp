// SPDX-License-Identifier: Apache-2.0
// Shapes of common models by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::planning {

/// The catalogue's model of this name: "meta-llama/Llama-3.1-8B", "llama-3.1-8b", "Llama 3.1 8B Instruct". Letter case,
/// '-', '_', '.', blanks and the publisher are ignored, and endings that do not change the shape ("-Instruct", "-hf",
/// "-chat", "-it", "-GPTQ", ...). Fails with not_found, naming those that are most like it.
Result<ModelShape> find_model(std::string_view name);
/// Names of all models of the catalogue, sorted.
std::vector<std::string> catalog_names();

}  // namespace gpuwarden::planning
