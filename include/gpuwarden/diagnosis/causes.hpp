// SPDX-License-Identifier: Apache-2.0
// What is known of a cause besides its own row: the rules that name it, and the causes that lead to it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/diagnosis/lookup.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// The rules that speak for a cause: those that name it by themselves, and most surely, first.
std::vector<const knowledge::DiagnosisRule*> rules_of(const knowledge::DiagnosisCause& cause);

/// Ids of the causes after which this one is a mere consequence.
std::vector<std::string> follows_from(const knowledge::DiagnosisCause& cause);

/// Every cause in short, as `gpuwarden diagnose --list --json` prints them.
nlohmann::json causes_json();

/// What was found, its causes at length; `xid`, `found` and the question are for whoever asked to add.
nlohmann::json to_json(const Lookup& lookup);

}  // namespace gpuwarden::diagnosis
