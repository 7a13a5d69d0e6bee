// SPDX-License-Identifier: Apache-2.0
// Which out-of-memory it is, from the numbers of the message alone.
#pragma once

#include <optional>
#include <string>

#include "gpuwarden/diagnosis/event.hpp"

namespace gpuwarden::diagnosis {

struct MemoryVerdict {
  std::string cause;    ///< oom_capacity, oom_other_process, oom_fragmentation
  std::string reason;   ///< why it is this one
  std::string summary;  ///< a sentence with the numbers
  double confidence = 0.9;
};

/// Nothing where the numbers do not tell.
std::optional<MemoryVerdict> judge_memory(const Facts& facts);

}  // namespace gpuwarden::diagnosis
