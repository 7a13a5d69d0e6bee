// SPDX-License-Identifier: Apache-2.0
// How much of a GPU's memory programs can have, where it was published: less than the maker prints, since the driver
// and error correction take some. From knowledge/usable_memory.csv.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::knowledge {

struct UsableMemory {
  std::string_view name;  ///< as NVML calls the model
  double gib = 0;         ///< what PyTorch calls its total capacity
  std::string_view source;
};

std::span<const UsableMemory> usable_memories();
/// nullptr where nothing was published of that model.
const UsableMemory* find_usable_memory(std::string_view name);

}  // namespace gpuwarden::knowledge
