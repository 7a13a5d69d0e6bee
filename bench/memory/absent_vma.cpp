// SPDX-License-Identifier: Apache-2.0
// In place of vma_contenders.cpp where vk_mem_alloc.h or Vulkan's headers were not found.
#include "memory/contestant.hpp"

namespace gpuwarden::bench {
std::vector<Contender> vma_contenders() { return {}; }
}  // namespace gpuwarden::bench
