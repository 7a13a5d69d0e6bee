// SPDX-License-Identifier: Apache-2.0
#include "planning/engines.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {

const EngineTraits& traits_of(Engine engine) { return *std::ranges::find(kEngines, engine, &EngineTraits::engine); }

std::uint32_t usual_window(const ModelShape& model, Engine engine) {
  if (model.estimated) return 0;
  const bool unscaled = engine == Engine::vllm && model.unscaled_positions > 0;
  if (unscaled) return model.unscaled_positions;
  return model.max_positions > 0 ? model.max_positions : model.kin_positions;
}

std::uint32_t usual_context(Bytes memory) {
  if (memory < Bytes(23ULL << 30U)) return 4096;
  return memory < Bytes(47ULL << 30U) ? 32'768 : 262'144;
}

/// Source: vllm/engine/arg_utils.py, EngineArgs.get_batch_defaults, for `vllm serve`: GPUs of 70 GiB and more work on
/// more at a time, A100s excepted.
BatchSizes usual_batch(Engine engine, const GpuGroup& gpus) {
  constexpr Bytes kLargeForVllm{70ULL << 30U};
  // n_ubatch of llama.cpp's common/common.h.
  if (traits_of(engine).splits_layers) return {.tokens = 512, .requests = 1};
  if (engine != Engine::vllm) return {};
  const bool large = gpus.usable >= kLargeForVllm && !to_lower(gpus.name).contains("a100");
  return large ? BatchSizes{.tokens = 8192, .requests = 1024} : BatchSizes{.tokens = 2048, .requests = 256};
}

}  // namespace gpuwarden::planning
