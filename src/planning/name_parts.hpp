// SPDX-License-Identifier: Apache-2.0
// Names of fine-tunes that hold the name of the model that they were made from.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/knowledge/model_catalog.hpp"

namespace gpuwarden::planning {

/// The row that a part of the name names ("Hermes-3-Llama-3.1-8B"); null where none does, and where another word of it
/// speaks of another shape, width, context or kind of model: a wrong shape is worse than none.
const knowledge::CatalogModel* find_named_part(std::string_view name);

/// A tag of ollama's as a name, "qwen3:32b" and "llama3.1:latest"; empty where it is none.
std::string name_of_tag(std::string_view tag);

}  // namespace gpuwarden::planning
