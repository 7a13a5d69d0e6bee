// SPDX-License-Identifier: Apache-2.0
// Shapes of models that tests plan for; source: their config.json on huggingface.co.
#pragma once

#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::planning::testing {

inline ModelShape llama3_8b() {
  ModelShape shape;
  shape.name = "Llama-3-8B";
  shape.family = "llama";
  shape.hidden = 4096;
  shape.layers = 32;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.head_dim = 128;
  shape.intermediate = 14336;
  shape.vocab = 128256;
  return shape;
}

inline ModelShape mistral_7b() {
  ModelShape shape = llama3_8b();
  shape.name = "Mistral-7B";
  shape.family = "mistral";
  shape.vocab = 32000;
  return shape;
}

inline ModelShape llama3_70b() {
  ModelShape shape = llama3_8b();
  shape.name = "Llama-3-70B";
  shape.hidden = 8192;
  shape.layers = 80;
  shape.heads = 64;
  shape.intermediate = 28672;
  return shape;
}

inline ModelShape mixtral_8x7b() {
  ModelShape shape = mistral_7b();
  shape.name = "Mixtral-8x7B";
  shape.family = "mixtral";
  shape.experts = {.experts = 8, .experts_per_token = 2, .intermediate = 14336};
  return shape;
}

inline constexpr double kTestGiB = 1024.0 * 1024 * 1024;
inline GpuBudget a100_80gb() { return {Bytes(static_cast<std::uint64_t>(79.15 * kTestGiB))}; }

}  // namespace gpuwarden::planning::testing
