// SPDX-License-Identifier: Apache-2.0
// What a CUDA toolkit needs: driver, GPUs, host compilers.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/compat/answer.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::CudaToolkit;
using knowledge::RunsOn;

/// The exact release where the question names one ("12.4.1"), else the newest of "12.4".
const CudaToolkit* row_for(const Asked& asked, const Version& cuda) {
  const auto rows = asked.knowledge.toolkits();
  const auto exact = std::ranges::find(rows, cuda, &CudaToolkit::version);
  return cuda.patch != 0 && exact != rows.end() ? &*exact : asked.knowledge.toolkit(cuda);
}

/// First and last driver branch of the models with this architecture; 0: not known, still.
std::pair<int, int> branches_of(const Asked& asked, int architecture) {
  int first = 0;
  int last = 0;
  for (const auto& model : asked.knowledge.models()) {
    if (knowledge::architecture_of(model) != architecture) continue;
    if (first == 0 || (model.first_driver_branch != 0 && model.first_driver_branch < first))
      first = model.first_driver_branch;
    last = std::max(last, model.last_driver_branch);
  }
  return {first, last};
}

std::string releases_of(const knowledge::VllmRelease& row) {
  const std::string first = three_numbers(row.first);
  return row.last == row.first ? first : fmt::format("{} to {}", first, three_numbers(row.last));
}

void add_drivers(const Asked& asked, CudaAnswer& answer) {
  answer.native = asked.knowledge.min_driver(answer.cuda, true);
  answer.minor = asked.knowledge.min_driver(answer.cuda, false);
  const CudaToolkit* row = answer.toolkit;
  if (row != nullptr && row->version == answer.cuda && row->min_driver) answer.native = row->min_driver;
}

void add_generations(const Asked& asked, CudaAnswer& answer) {
  for (const auto& one : asked.knowledge.architectures()) {
    if (!asked.knowledge.can_target(answer.cuda, one.number).value_or(false)) continue;
    const auto [first, last] = branches_of(asked, one.number);
    GenerationRow row{.architecture = &one, .least = {}, .all = {}, .last_branch = last};
    // Jetson's driver comes with its system: those architectures have no branch.
    if (first != 0) {
      row.least = std::max(Version{first}, answer.minor.value_or(Version{}));
      row.all = std::max(row.least, answer.native.value_or(Version{}));
    }
    answer.architectures.push_back(row);
  }
}

void add_place(const Asked& asked, CudaAnswer& answer) {
  if (asked.place.is_empty()) return;
  CudaAnswer::Here here;
  if (asked.place.driver) here.runs = runs_here(asked, answer.cuda);
  if (here.runs == RunsOn::not_at_all) answer.positive = false;
  for (const PlaceGpu& gpu : asked.place.gpus) {
    TargetGpu target{&gpu, obstacle_of(asked, gpu), std::nullopt};
    if (gpu.architecture) target.builds = asked.knowledge.can_target(answer.cuda, *gpu.architecture);
    if (!target.obstacle.empty() || target.builds == false) answer.positive = false;
    here.gpus.push_back(std::move(target));
  }
  answer.here = std::move(here);
}

}  // namespace

std::optional<bool> CudaAnswer::Here::builds() const {
  std::optional<bool> all;
  for (const TargetGpu& target : gpus) {
    if (target.builds) all = all.value_or(true) && *target.builds;
  }
  return all;
}

CudaAnswer answer_cuda(const Asked& asked, const Version& cuda) {
  CudaAnswer answer;
  answer.cuda = cuda;
  answer.toolkit = row_for(asked, cuda);
  answer.newer_than_known = release_of(cuda) > asked.knowledge.newest_toolkit();
  if (answer.toolkit != nullptr)
    answer.sources.push_back(fmt::format("CUDA {}: {}", answer.toolkit->name, answer.toolkit->source));
  add_drivers(asked, answer);
  add_place(asked, answer);
  const std::string build = knowledge::build_of_cuda(release_of(cuda));
  for (const auto& wheel : asked.knowledge.torch_builds(asked.place.wheel_machine())) {
    if (wheel.build == build) answer.torch.push_back(wheel_name(wheel));
  }
  for (const auto& release : asked.knowledge.vllm_releases()) {
    if (release_of(release.cuda) == release_of(cuda) || release_of(release.other_cuda) == release_of(cuda))
      answer.vllm.push_back(releases_of(release));
  }
  add_generations(asked, answer);
  if (answer.toolkit == nullptr && !answer.native && !answer.minor) answer.positive = false;
  return answer;
}

}  // namespace gpuwarden::compat
