// SPDX-License-Identifier: Apache-2.0
// What Python's keyword arguments ask of the selector and the planner.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/placement/request.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::python {

/// A request of {"gpu_ids": [..], "count": 2, "min_memory": "40GiB", ...}; keys about a model and its task as
/// planning::workload_from knows them. Fails with invalid_argument, naming the key.
Result<placement::Request> selection_from(const nlohmann::json& options);

/// A key's value as words: numbers and texts as they are written, lists one by one.
std::vector<std::string> words_of(const nlohmann::json& value);
/// All keys that are set but those in `besides`; false and null count as not set.
planning::Words workload_words(const nlohmann::json& options, const std::vector<std::string>& besides);

}  // namespace gpuwarden::python
