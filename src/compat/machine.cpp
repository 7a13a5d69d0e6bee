// SPDX-License-Identifier: Apache-2.0
// What a driver and GPUs run, and what an Xid of the kernel log means.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compat/recommend.hpp"

namespace gpuwarden::compat {
namespace {

/// MAJOR.MINOR of every toolkit that is known, newest first.
std::vector<Version> releases(const Asked& asked) {
  std::vector<Version> result;
  for (const auto& toolkit : asked.knowledge.toolkits()) result.push_back(release_of(toolkit.version));
  std::ranges::sort(result, std::greater<>());
  const auto [first, last] = std::ranges::unique(result);
  result.erase(first, last);
  return result;
}

std::vector<ToolkitRow> toolkits(const Asked& asked) {
  const auto architectures = asked.place.architectures();
  std::vector<ToolkitRow> rows;
  for (const Version& cuda : releases(asked)) {
    const bool builds = std::ranges::all_of(
        architectures, [&](int one) { return asked.knowledge.can_target(cuda, one).value_or(true); });
    rows.push_back({cuda, builds, std::nullopt});
    if (asked.place.driver) rows.back().runs = runs_here(asked, cuda);
  }
  return rows;
}

void add_gpus(const Asked& asked, MachineAnswer& answer) {
  for (const PlaceGpu& gpu : asked.place.gpus) {
    for (const InstalledTorch& torch : asked.place.torches) {
      if (const std::string why = missing_kernels(torch, gpu); !why.empty())
        answer.obstacles.push_back({gpu.name, why});
    }
  }
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (std::string why = obstacle_of(asked, gpu); !why.empty()) answer.obstacles.push_back({gpu.name, std::move(why)});
    if (gpu.model != nullptr) answer.sources.push_back(fmt::format("{}: {}", gpu.name, gpu.model->source));
  }
}

}  // namespace

MachineAnswer answer_machine(const Asked& asked) {
  MachineAnswer answer;
  answer.nothing_to_judge = asked.place.is_empty();
  answer.positive = !answer.nothing_to_judge;
  if (answer.nothing_to_judge) return answer;
  const auto* branch = asked.place.driver ? asked.knowledge.branch(asked.place.driver->major) : nullptr;
  if (branch != nullptr) answer.sources.push_back(fmt::format("driver branch {}: {}", branch->branch, branch->source));
  add_gpus(asked, answer);
  answer.toolkits = toolkits(asked);
  // With a driver that drives none of the GPUs nothing runs: only the way out is worth showing.
  if (!is_useless(asked)) answer.torch = all_wheels(asked);
  answer.recommended = recommend(asked, answer);
  const bool has_builds = any_runs(answer.torch) || !answer.recommended->other_builds.empty();
  answer.positive = answer.obstacles.empty() && has_builds;
  return answer;
}

XidAnswer answer_xid(const knowledge::Knowledge& knowledge, int code) {
  XidAnswer answer;
  answer.code = code;
  answer.row = knowledge.xid(code);
  answer.before_ampere = knowledge.xid(code, knowledge::MemoryRepair::pages);
  if (answer.before_ampere == answer.row) answer.before_ampere = nullptr;
  answer.positive = answer.row != nullptr;
  if (answer.row != nullptr) answer.sources.push_back(fmt::format("Xid {}: {}", code, answer.row->source));
  if (answer.before_ampere != nullptr)
    answer.sources.push_back(fmt::format("Xid {} before Ampere: {}", code, answer.before_ampere->source));
  return answer;
}

}  // namespace gpuwarden::compat
