// SPDX-License-Identifier: Apache-2.0
// The answers of `gpuwarden env` as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "gpuwarden/knowledge/variables.hpp"
#include "gpuwarden/toolkits/listing.hpp"
#include "gpuwarden/toolkits/shell.hpp"
#include "gpuwarden/toolkits/suggestions.hpp"

namespace gpuwarden::toolkits {

nlohmann::json to_json(const ToolkitListing& listing);
/// The variables that a shell is to set; null: to be unset.
nlohmann::json to_json(const std::vector<Change>& changes);
/// What is known about variables, and what each is in the environment of those who ask.
nlohmann::json to_json(std::span<const knowledge::KnownVariable* const> variables, const Environment& here);
/// Values that fit the snapshot they were made from.
nlohmann::json to_json(const std::vector<Suggestion>& suggestions, const facts::Snapshot& snapshot);

}  // namespace gpuwarden::toolkits
