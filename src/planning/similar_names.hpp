// SPDX-License-Identifier: Apache-2.0
// What a name that nobody knows may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::planning {

struct KnownName {
  std::string_view name;  ///< "meta-llama/Llama-3.1-8B"
  std::string bare;       ///< "llama318b": small letters and digits of what makes the model
};

/// The five names, or fewer, that are most like `wanted` (bare as theirs): those that hold it; else those of which
/// about a third of the letters may differ, nearest first, then those of its family.
std::vector<std::string> names_like(std::string_view wanted, std::span<const KnownName> known);

}  // namespace gpuwarden::planning
