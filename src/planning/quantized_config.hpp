// SPDX-License-Identifier: Apache-2.0
// How a checkpoint says that its weights are quantised: config.json's `quantization_config`, which every method writes
// its own way. Sources: transformers' utils/quantization_config.py, compressed-tensors' quant_scheme.py, ModelOpt's
// hf_quant_config.
#pragma once

#include "gpuwarden/planning/model.hpp"
#include "planning/config_fields.hpp"

namespace gpuwarden::planning {

/// Sets model.quantization (the method, and the number type where the method alone does not tell it: "modelopt nvfp4")
/// and quantization_bits of 4, 8 or 0 (16 bit). What is counted as something else, or not known, is said in a note.
/// Complains about a `quantization_config` that is no object.
void read_quantization(ConfigFields& fields, ModelShape& model);

}  // namespace gpuwarden::planning
