// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/burn_in/verdict.hpp"

#include <algorithm>

namespace gpuwarden::burn_in {
namespace {

bool is_sound_gpu(const facts::BurnInGpu& gpu) {
  return !gpu.failed && gpu.wrong_results == 0 && std::ranges::none_of(gpu.figures, is_low);
}

bool is_sound_pair(const facts::BurnInPair& pair) { return !pair.failed && !(pair.figure && is_low(*pair.figure)); }

}  // namespace

bool is_low(const facts::BurnInFigure& figure) { return figure.least && figure.value < *figure.least; }

Verdict verdict_of(const facts::BurnInRun& run) {
  if (run.not_possible || run.failed) return Verdict::not_possible;
  const bool measured = std::ranges::any_of(run.gpus, [](const auto& gpu) { return !gpu.figures.empty(); });
  const bool sound = std::ranges::all_of(run.gpus, is_sound_gpu) && std::ranges::all_of(run.pairs, is_sound_pair);
  return measured && sound ? Verdict::sound : Verdict::faulty;
}

}  // namespace gpuwarden::burn_in
