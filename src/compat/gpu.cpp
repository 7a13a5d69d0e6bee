// SPDX-License-Identifier: Apache-2.0
// A GPU, or an architecture: what it is, and which drivers, toolkits and frameworks serve it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/answer.hpp"
#include "gpuwarden/knowledge/gpu_names.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::GpuModel;
using knowledge::TorchBuild;

/// Of drivers, those that serve a GPU; 0: no bound.
struct Branches {
  int first = 0;
  int last = 0;
};

/// The first and the newest PyTorch with code for an architecture, on the place's driver where that is of a branch that
/// serves such a GPU.
Frameworks frameworks_for(const Asked& asked, int architecture, Frameworks found, Branches branches, Verdict& verdict) {
  found.driver = asked.place.driver;
  if (found.driver) {
    found.too_old = branches.first != 0 && found.driver->major < branches.first;
    if (found.too_old || (branches.last != 0 && found.driver->major > branches.last)) {
      found.not_served_by = std::exchange(found.driver, std::nullopt);
      verdict.positive = false;
    }
  }
  if (found.board != nullptr) verdict.sources.push_back(fmt::format("{}: {}", found.board->word, found.board->source));
  if (found.board != nullptr && !found.board->builds.empty()) return found;
  found.newest_torch = knowledge::newest_torch_for(asked.knowledge, {architecture}, found.driver, found.machine);
  found.newest_vllm = knowledge::newest_vllm_for(asked.knowledge, {architecture}, found.driver, found.machine);
  for (const TorchBuild& build : asked.knowledge.torch_builds(found.machine)) {
    if (!knowledge::is_fit(knowledge::wheel_fit(asked.knowledge, build, architecture, found.driver))) continue;
    if (found.first_torch == nullptr || build.torch < found.first_torch->torch) found.first_torch = &build;
  }
  if (const TorchBuild* newest = found.newest_torch)
    verdict.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(*newest), newest->source));
  return found;
}

/// Whose wheels: those for the machines that have such a GPU.
Frameworks on_board(std::string_view gpu_name) {
  Frameworks found;
  found.board = knowledge::find_gpu_board(gpu_name);
  found.machine = knowledge::machine_of_gpu(gpu_name);
  return found;
}

Error unknown_gpu(const Asked& asked, const std::string& words) {
  if (auto other = knowledge::refusal_of_other_makers(words)) return *std::move(other);
  std::string close = knowledge::nearest_gpu_name(asked.knowledge, words);
  if (close.empty()) close = doctor::nearest_package(words);
  return {ErrorCode::not_found, fmt::format("'{}' is neither a known question nor a known GPU", printable(words)),
          close.empty() ? "gpuwarden compat --help shows what can be asked" : fmt::format("did you mean '{}'?", close)};
}

}  // namespace

Result<std::variant<GpuAnswer, ArchitectureAnswer>> answer_gpu(const Asked& asked, const std::string& words) {
  const auto models = knowledge::models_named(asked.knowledge, words);
  if (models.empty()) {
    if (auto other = knowledge::refusal_of_memory(asked.knowledge, words)) return std::unexpected(*std::move(other));
    const auto architecture = asked.knowledge.architecture_of_name(words);
    if (!architecture) return std::unexpected(unknown_gpu(asked, words));
    return answer_architecture(asked, *architecture, words);
  }
  const GpuModel& model = *models[0];
  GpuAnswer answer;
  answer.model = &model;
  answer.use = knowledge::find_gpu_use(model.name);
  const int architecture = knowledge::architecture_of(model);
  const TorchBuild* wheel =
      knowledge::newest_torch_for(asked.knowledge, {architecture}, {}, knowledge::machine_of_gpu(model.name));
  const auto cuda = wheel != nullptr ? knowledge::cuda_of_build(wheel->build) : std::nullopt;
  answer.needs = knowledge::driver_needs(asked.knowledge, model, cuda, "", asked.when);
  answer.sources.push_back(fmt::format("{}: {}", model.name, model.source));
  if (answer.use != nullptr) answer.sources.push_back(fmt::format("good for: {}", answer.use->source));
  answer.sources.insert(answer.sources.end(), answer.needs.sources.begin(), answer.needs.sources.end());
  answer.frameworks = frameworks_for(asked, architecture, on_board(model.name),
                                     {answer.needs.first.lowest().major, model.last_driver_branch}, answer);
  for (std::size_t i = 1; i < models.size(); ++i) answer.also.emplace_back(models[i]->name);
  return answer;
}

ArchitectureAnswer answer_architecture(const Asked& asked, int architecture, const std::string& asked_as) {
  ArchitectureAnswer answer;
  answer.architecture = architecture;
  answer.asked_as = asked_as;
  answer.row = asked.knowledge.architecture(architecture);
  answer.positive = answer.row != nullptr;
  for (const GpuModel& model : asked.knowledge.models()) {
    if (knowledge::architecture_of(model) != architecture) continue;
    answer.gpus.emplace_back(model.name);
    const int first = model.first_driver_branch;
    answer.first_branch = answer.first_branch == 0 ? first : std::min(answer.first_branch, first);
    answer.last_branch = std::max(answer.last_branch, model.last_driver_branch);
  }
  if (answer.row == nullptr) return answer;
  // A generation of which every GPU is built together with a processor has no other machines.
  std::string name = asked_as;
  const bool one_kind = std::ranges::all_of(
      answer.gpus, [](const std::string& gpu) { return knowledge::find_gpu_board(gpu) != nullptr; });
  if (name.empty() && one_kind && !answer.gpus.empty()) name = answer.gpus[0];
  answer.frameworks =
      frameworks_for(asked, architecture, on_board(name), {answer.first_branch, answer.last_branch}, answer);
  answer.sources.push_back(fmt::format("sm_{}: {}", architecture, answer.row->source));
  return answer;
}

}  // namespace gpuwarden::compat
