// SPDX-License-Identifier: Apache-2.0
// What options of other programs say in a plan's words, where one alone does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::planning {

/// The options of a line, with those that other programs have otherwise in a plan's words: "--use_peft --load_in_4bit"
/// as "--task qlora", "--nproc_per_node 8 --gpus a100" as "--gpus 8xa100". Those that say more than can be planned stay
/// as they are; what follows "--" is left alone. `serves`: the line is a server's, of this engine.
/// Fails with invalid_argument where two of them say the same, naming both as they were typed; patterns and numbers of
/// layers whose experts the CPU keeps are joined.
Result<std::vector<std::string>> with_meanings(const std::vector<std::string>& options, bool serves,
                                               std::string_view engine);

}  // namespace gpuwarden::planning
