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

/// Source: vllm/engine/arg_utils.py, EngineArgs.get_batch_defaults, for `vllm serve`: GPUs of 70 GiB and more work on
/// more at a time, A100s excepted.
BatchSizes usual_batch(Engine engine, const GpuGroup& gpus) {
  constexpr Bytes kLargeForVllm{70ULL << 30U};
  // n_ubatch of llama.cpp's common/common.h.
  if (engine == Engine::llama_cpp) return {.tokens = 512, .requests = 1};
  if (engine != Engine::vllm) return {};
  const bool large = gpus.usable >= kLargeForVllm && !to_lower(gpus.name).contains("a100");
  return large ? BatchSizes{.tokens = 8192, .requests = 1024} : BatchSizes{.tokens = 2048, .requests = 256};
}

/// All tokens' logits and a hidden state in fp32, or what a layer's MLP holds: 258.50 MiB of Llama 3 8B and 398.38 MiB
/// of gpt-oss-20b with 512 tokens, as llama.cpp's logs have them ("compute buffer size") wherever attention is flash.
Bytes compute_buffer(const ModelShape& model, std::uint32_t tokens) {
  constexpr double kBytes = 4;
  const ExpertShape& experts = model.experts;
  const double mlp = std::max<double>(model.intermediate, 1.0 * experts.intermediate * experts.experts_per_token);
  const double width = std::max<double>(1.0 * model.vocab + model.hidden, 2 * mlp + 2.0 * model.hidden);
  return Bytes(static_cast<std::uint64_t>(kBytes * width * tokens));
}

}  // namespace gpuwarden::planning
