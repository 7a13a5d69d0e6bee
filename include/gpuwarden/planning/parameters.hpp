// SPDX-License-Identifier: Apache-2.0
// How many parameters a model has, exactly, and where they are: every kind of weight with its size and how often it is
// there. Totals, active parameters, LoRA's adapters and what a quantised loader shrinks all come from that one list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::planning {

enum class Component {
  embedding,  ///< tokens, positions, token types, image patches, and their projections
  attention,
  mlp,            ///< dense
  experts,        ///< routed
  shared_expert,  ///< with its gate
  router,
  norm,
  head,   ///< output matrix, classifier, pooler
  tower,  ///< for images and sound
};
std::string_view to_string(Component component);

/// What a matrix of a layer does, however its family calls it.
enum class Role { other, query, key, value, qkv, output, gate, up, down };

/// One kind of weight.
struct Weight {
  std::string module;  ///< as Hugging Face names it: "q_proj"
  Component component = Component::attention;
  std::uint64_t inputs = 0;  ///< 1 for a vector
  std::uint64_t outputs = 0;
  bool bias = false;    ///< and as many numbers as outputs
  bool linear = false;  ///< multiplies activations inside a layer: LoRA can adapt it, 4- and 8-bit loaders shrink it
  std::uint64_t copies = 0;         ///< in the whole model
  std::uint64_t active_copies = 0;  ///< of them, that one token passes through
  Role role = Role::other;          ///< of attention's and the MLPs' own; two of them in one matrix: of the last

  /// Of one copy, bias included.
  std::uint64_t elements() const { return inputs * outputs + (bias ? outputs : 0); }
};

/// Every kind of weight of the model. Sources of the structures: Hugging Face transformers' modelling files; the sums
/// are held against published counts (tests/planning).
std::vector<Weight> weights_of(const ModelShape& model);

struct ParameterCount {
  std::uint64_t total = 0;
  std::uint64_t active = 0;  ///< that one token passes through; embedding and head are counted whole
  std::uint64_t embedding = 0;
  std::uint64_t head = 0;  ///< 0 where it is tied to the embedding
  std::uint64_t attention = 0;
  std::uint64_t mlp = 0;      ///< dense
  std::uint64_t experts = 0;  ///< routed and shared, with routers
  std::uint64_t norms = 0;
  std::uint64_t towers = 0;  ///< for images and sound
  std::uint64_t linear = 0;  ///< elements of the layers' matrices, without biases
  std::uint64_t layer = 0;   ///< of the largest layer, experts included

  bool operator==(const ParameterCount&) const = default;
};

ParameterCount count_parameters(const ModelShape& model);
/// Elements, roughly, in floating point: safe for shapes that no model can have.
double approximate_parameters(const ModelShape& model);

/// The modules that PEFT adapts when LoRA names none (source: peft's
/// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING).
std::vector<std::string> default_lora_targets(const ModelShape& model);
/// Parameters of LoRA adapters of this rank: rank x (inputs + outputs) for every adapted matrix (arXiv 2106.09685).
/// `targets` are module names; "all-linear" stands for every matrix of the layers; none for default_lora_targets().
/// Fails with invalid_argument on a module that the model has not, naming those it has.
Result<std::uint64_t> lora_parameters(const ModelShape& model, std::uint64_t rank,
                                      const std::vector<std::string>& targets = {});

}  // namespace gpuwarden::planning
