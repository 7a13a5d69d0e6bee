// SPDX-License-Identifier: Apache-2.0
// The words in which frameworks tell of GPU memory, each explained in a sentence.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "gpuwarden/diagnosis/diagnosis.hpp"

namespace gpuwarden::diagnosis {

struct Term {
  std::string_view name;
  std::string_view meaning;  ///< begins small, ends without a stop
};

/// All of them, in the order in which they add up.
std::span<const Term> memory_terms();

/// Whether the cause's message holds numbers that these words name (allocated, reserved).
bool speaks_of_memory(const Cause& cause);

/// [{"term":"allocated","meaning":"..."}]
nlohmann::json memory_terms_json();

}  // namespace gpuwarden::diagnosis
