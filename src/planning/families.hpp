// SPDX-License-Identifier: Apache-2.0
// The families of models, one row each: how their layers are built, which keys their config.json has beside the common
// ones, and how their modules are called. Sources: Hugging Face transformers' configuration_*.py and modeling_*.py of
// the family; the counts that follow are held against published ones by tests/planning.
#pragma once

#include <span>
#include <string_view>

#include "gpuwarden/planning/model.hpp"
#include "planning/config_fields.hpp"

namespace gpuwarden::planning {

/// Names of a layer's modules. `qkv` and `gate_up`: fused into one matrix; empty where they are apart.
struct ModuleNames {
  std::string_view query, key, value, qkv;
  std::string_view out;
  std::string_view gate, up, gate_up;
  std::string_view down;
  bool delta_apart =
      false;              ///< a Gated DeltaNet's four inputs are matrices of their own (Qwen3-Next fuses them to two)
  std::string_view lora;  ///< PEFT's default targets, separated by spaces
};

struct Family {
  std::string_view name;
  std::string_view aliases;  ///< other model_type values and common names, separated by spaces
  ModuleNames modules;
  void (*traits)(ModelShape& model);                      ///< what holds for all of the family
  void (*read)(ConfigFields& fields, ModelShape& model);  ///< keys of its own; runs behind the common ones; may be null
};

std::span<const Family> families();
/// By name or alias, letter case, '-', '.' and '_' ignored; nullptr where it is not known.
const Family* find_family(std::string_view name);

}  // namespace gpuwarden::planning
