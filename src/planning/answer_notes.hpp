// SPDX-License-Identifier: Apache-2.0
// What an answer says besides its figures.
#pragma once

#include <string>

#include "gpuwarden/planning/answer.hpp"

namespace gpuwarden::planning {

/// Sentences on lengths, replicas, types and memory; settings become what the GPUs have (fp16 for bf16).
void add_notes(PlanAnswer& answer);
/// The options of an engine that splits layers, as its command line has them.
std::string engine_options(const Workload& work, const Settings& settings);

/// Says where SGLang's own share leaves too little to compute with.
void note_static_share(PlanAnswer& answer);

}  // namespace gpuwarden::planning
