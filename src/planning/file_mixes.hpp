// SPDX-License-Identifier: Apache-2.0
// Which format a tensor has in a mix of llama.cpp's.
#pragma once

#include <cstdint>

#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {

/// The format of a layer's matrix that does this.
GgmlType type_in_mix(const FileMix& mix, const ModelShape& model, Role role, std::uint32_t layer);
/// The same, or what stands in its place where a row of so many weights is not made of its blocks.
GgmlType whole_blocks(GgmlType type, std::uint64_t row);

}  // namespace gpuwarden::planning
