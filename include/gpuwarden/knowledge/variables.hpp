// SPDX-License-Identifier: Apache-2.0
// Environment variables that GPU software heeds: what they mean and when to set them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::knowledge {

struct KnownVariable {
  std::string_view name;
  std::string_view software;       ///< "nccl", "cuda", "pytorch", "vllm", "jax", "system" ...
  std::string_view values;         ///< what it may be
  std::string_view default_value;  ///< what holds where it is not set
  std::string_view meaning;
  std::string_view when;  ///< when to set it, and when not
  std::string_view source;
};

std::span<const KnownVariable> known_variables();
/// The variable of this name (in any letter case); nullptr where it is not known.
const KnownVariable* find_known_variable(std::string_view name);
/// The variables of these names (also as a shell has them: "$NAME", "export NAME=value"), and of software all, each
/// once; of no words all that are known. Fails with invalid_argument for a word that is neither, naming the nearest.
Result<std::vector<const KnownVariable*>> find_known_variables(const std::vector<std::string>& words);

}  // namespace gpuwarden::knowledge
