// SPDX-License-Identifier: Apache-2.0
// Towers for images whose sizes a multimodal config.json has in its `vision_config`.
#pragma once

#include <cstdint>
#include <optional>

#include "planning/config_fields.hpp"

namespace gpuwarden::planning {

/// Parameters of the tower and of what leads from it into a language model of this width. Nothing where its kind is not
/// known or a size is missing or wrong.
std::optional<std::uint64_t> vision_tower_parameters(ConfigFields& vision, std::uint64_t text_hidden);

}  // namespace gpuwarden::planning
