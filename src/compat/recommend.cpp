// SPDX-License-Identifier: Apache-2.0
#include "compat/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwarden::compat {
namespace {

/// The place's driver; where it cannot drive one of the GPUs, the branch to take for all of them.
std::optional<Version> driver_to_take(const Asked& asked) {
  int first = 0;
  int last = 0;
  bool fits = true;
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (gpu.model == nullptr) continue;
    fits = fits && obstacle_of(asked, gpu).empty();
    first = std::max(first, knowledge::first_drivers_of(*gpu.model).lowest().major);
    const int own_last = gpu.model->last_driver_branch;
    if (own_last != 0) last = last == 0 ? own_last : std::min(last, own_last);
  }
  const int branch = fits ? 0 : asked.knowledge.recommended_branch(first, last, asked.when);
  return branch != 0 ? std::optional(Version{branch}) : asked.place.driver;
}

}  // namespace

std::vector<Wheel> all_wheels(const Asked& asked) {
  std::vector<Wheel> wheels;
  for (const auto& build : asked.knowledge.torch_builds(asked.place.wheel_machine()))
    wheels.push_back({build, fit_here(asked, build)});
  return wheels;
}

bool any_runs(const std::vector<Wheel>& wheels) {
  return std::ranges::any_of(wheels, [](const Wheel& one) { return one.fit && knowledge::is_fit(*one.fit); });
}

Recommendation recommend(const Asked& asked, Verdict& verdict) {
  if (const auto* board = asked.place.board_of_other_builds()) {
    verdict.sources.push_back(fmt::format("{}: {}", board->word, board->source));
    Recommendation others;
    others.other_builds = board->builds;
    return others;
  }
  const auto driver = driver_to_take(asked);
  const auto architectures = asked.place.architectures();
  const std::string_view machine = asked.place.wheel_machine();
  Recommendation recommended{driver != asked.place.driver ? driver : std::nullopt,
                             knowledge::newest_torch_for(asked.knowledge, architectures, driver, machine),
                             knowledge::newest_vllm_for(asked.knowledge, architectures, driver, machine), ""};
  if (const auto* torch = recommended.torch)
    verdict.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(*torch), torch->source));
  if (const auto* vllm = recommended.vllm) {
    recommended.vllm_command = vllm_command(asked, *vllm, knowledge::release_number(vllm->first), driver);
    verdict.sources.push_back(fmt::format("vLLM {}: {}", three_numbers(vllm->first), vllm->source));
  }
  return recommended;
}

std::optional<Obstacle> gpu_obstacle(const Asked& asked) {
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (std::string why = obstacle_of(asked, gpu); !why.empty()) return Obstacle{gpu.name, std::move(why)};
  }
  return std::nullopt;
}

}  // namespace gpuwarden::compat
