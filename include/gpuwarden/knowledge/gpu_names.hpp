// SPDX-License-Identifier: Apache-2.0
// GPUs by the names that people type: "4090", "a100-80gb", "H100 SXM5", "V100 32GB", "DGX Spark". The names that a
// driver reports are for Knowledge::model().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::knowledge {

/// The models that a name may stand for, the one that most people mean first: a whole name as NVML has it, then what
/// knowledge/gpu_names.csv says, then SXM before PCIe and the larger memory. Letter case, "NVIDIA", and signs between
/// words do not matter; an amount of memory is of the name or of the model. Empty: none is known.
std::vector<const GpuModel*> models_named(const Knowledge& knowledge, std::string_view name);

/// Whether the model's name ends with this one, so that no other model is meant: "RTX 4090" is no "RTX 4090 D".
bool is_whole_name(const GpuModel& model, std::string_view name);

/// "AMD" of "MI300X"; empty where nothing says that it is another maker's.
std::string_view other_maker_of(std::string_view name);
/// not_found with the maker's name, where the GPU is another maker's.
std::optional<Error> refusal_of_other_makers(std::string_view name);

/// not_found with the nearest boards, where boards of this name are known but none of them has the memory that it names
/// ("RTX 3080 12GB"); empty: the name is another matter.
std::optional<Error> refusal_of_memory(const Knowledge& knowledge, std::string_view name);

/// The known name that is nearest to one that is not known, as people write it: "RTX 4090"; empty: none is near.
std::string nearest_gpu_name(const Knowledge& knowledge, std::string_view name);

}  // namespace gpuwarden::knowledge
