// SPDX-License-Identifier: Apache-2.0
// What is known of a cause besides its own row: the rules that name it, and the causes that lead to it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/diagnosis/lookup.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// The rules that speak for a cause: those that name it by themselves, and most surely, first.
std::vector<const knowledge::DiagnosisRule*> rules_of(const knowledge::DiagnosisCause& cause);

/// All causes, those of one area together; areas in the order in which the data first has them.
std::vector<const knowledge::DiagnosisCause*> causes_by_area();

/// "[vllm,sglang] step": the programs whose logs it is for, and the step. Empty and the whole for a step of all.
std::pair<std::string_view, std::string_view> programs_and_step(std::string_view text);
/// Steps where it is not known whose log it is: "vllm,sglang: step".
std::vector<std::string> steps_of_all_programs(std::span<const std::string_view> steps);

/// Ids of the causes after which this one is a mere consequence.
std::vector<std::string> follows_from(const knowledge::DiagnosisCause& cause);

/// Every cause in short, as `gpuwarden diagnose --list --json` prints them.
nlohmann::json causes_json();

/// What was found, its causes at length; `xid`, `found` and the question are for whoever asked to add.
nlohmann::json to_json(const Lookup& lookup);

}  // namespace gpuwarden::diagnosis
