// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/knowledge/first_drivers.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"
#include "gpuwarden/knowledge/gpu_names.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::Knowledge;
using knowledge::Version;

void add(std::vector<PlaceGpu>& gpus, PlaceGpu gpu) {
  const auto same = std::ranges::find(gpus, gpu.name, &PlaceGpu::name);
  if (same != gpus.end())
    ++same->count;
  else
    gpus.push_back(std::move(gpu));
}

PlaceGpu gpu_of(const facts::Gpu& gpu, const Knowledge& knowledge) {
  PlaceGpu result{gpu.name, std::nullopt, knowledge.model(gpu.name, gpu.pci_device_id)};
  if (gpu.compute_capability)
    result.architecture = gpu.compute_capability->major * 10 + gpu.compute_capability->minor;
  else
    result.architecture = result.model != nullptr ? std::optional(knowledge::architecture_of(*result.model))
                                                  : knowledge.architecture_of_name(gpu.name);
  return result;
}

std::optional<Version> driver_of(const facts::Snapshot& snapshot) {
  for (const auto& text : {snapshot.driver_version, snapshot.kernel_module_version,
                           snapshot.environment ? snapshot.environment->driver.loaded_version : std::nullopt}) {
    if (text) return Version::parse(*text);
  }
  return std::nullopt;
}

/// By what it says of itself, else by the table of its wheel.
InstalledTorch torch_of(const facts::PythonEnvironment& python, const facts::PythonPackage& package,
                        const Knowledge& knowledge, std::string_view machine) {
  InstalledTorch torch{package.version, python.torch_cuda.value_or(""), python.torch_architectures};
  const std::size_t plus = package.version.find('+');
  const auto version = Version::parse(package.version);
  const auto cuda = Version::parse(torch.cuda);
  std::string build = plus != std::string::npos ? package.version.substr(plus + 1) : "";
  if (build.empty() && cuda) build = knowledge::build_of_cuda(release_of(*cuda));
  const auto* row = torch.architectures.empty() && version ? knowledge.torch(*version, build, machine) : nullptr;
  if (row == nullptr) return torch;
  for (const auto entry : split(row->architectures, ';')) torch.architectures.emplace_back(entry);
  return torch;
}

std::vector<InstalledTorch> torches_of(const facts::Snapshot& snapshot, const Knowledge& knowledge,
                                       std::string_view machine) {
  std::vector<InstalledTorch> torches;
  if (!snapshot.environment) return torches;
  for (const auto& python : snapshot.environment->pythons) {
    if (const auto* package = facts::find_package(python, "torch"))
      torches.push_back(torch_of(python, *package, knowledge, machine));
  }
  return torches;
}

}  // namespace

std::vector<int> Place::architectures() const {
  std::vector<int> result;
  for (const PlaceGpu& gpu : gpus) {
    if (gpu.architecture && std::ranges::find(result, *gpu.architecture) == result.end())
      result.push_back(*gpu.architecture);
  }
  return result;
}

std::string_view Place::wheel_machine() const {
  if (!machine.empty()) return machine;
  const bool all_on_arm = !gpus.empty() && std::ranges::all_of(gpus, [](const PlaceGpu& gpu) {
    return knowledge::find_gpu_board(gpu.name) != nullptr;
  });
  return all_on_arm ? "aarch64" : knowledge::kUsualMachine;
}

const knowledge::GpuBoard* Place::board_of_other_builds() const {
  const knowledge::GpuBoard* first = nullptr;
  for (const PlaceGpu& gpu : gpus) {
    const auto* const board = knowledge::find_gpu_board(gpu.name);
    if (board == nullptr || board->builds.empty()) return nullptr;
    if (first == nullptr) first = board;
  }
  return first;
}

Place place_of(const facts::Snapshot& snapshot, const Knowledge& knowledge) {
  Place place{.gpus = {}, .driver = driver_of(snapshot), .origin = "this machine", .simulated = snapshot.simulated};
  if (snapshot.environment && snapshot.environment->host.machine) place.machine = *snapshot.environment->host.machine;
  place.problem = snapshot.problem;
  if (snapshot.simulated) place.origin = snapshot.fleet;
  for (const auto& record : snapshot.gpus) {
    if (record.gpu.vendor == "NVIDIA") add(place.gpus, gpu_of(record.gpu, knowledge));
  }
  place.cuda = snapshot.cuda_driver_version.value_or("");
  place.torches = torches_of(snapshot, knowledge, place.wheel_machine());
  return place;
}

namespace {

Error unknown_gpu(const Knowledge& knowledge, const std::string& name) {
  if (auto other = knowledge::refusal_of_other_makers(name)) return *std::move(other);
  const std::string close = knowledge::nearest_gpu_name(knowledge, name);
  return {ErrorCode::invalid_argument, fmt::format("there is no GPU '{}' in the knowledge base", printable(name)),
          close.empty() ? "name it as nvidia-smi does, for example \"RTX 4090\", or add it in a file for --knowledge"
                        : fmt::format("did you mean '{}'?", close)};
}

Result<PlaceGpu> gpu_named(const std::string& name, const Knowledge& knowledge) {
  auto models = knowledge::models_named(knowledge, name);
  if (!models.empty()) {
    PlaceGpu gpu{.name = std::string(models[0]->name),
                 .architecture = knowledge::architecture_of(*models[0]),
                 .model = models[0]};
    // "RTX 5090" is that one, "A100" all of its kind.
    if (knowledge::is_whole_name(*models[0], name)) models.resize(1);
    gpu.meant = std::move(models);
    return gpu;
  }
  if (auto other = knowledge::refusal_of_memory(knowledge, name)) return std::unexpected(*std::move(other));
  const auto architecture = knowledge.architecture_of_name(name);
  if (!architecture) return std::unexpected(unknown_gpu(knowledge, name));
  return PlaceGpu{.name = name, .architecture = architecture};
}

}  // namespace

Result<std::vector<PlaceGpu>> gpus_named(const std::vector<std::string>& lists, const Knowledge& knowledge) {
  std::vector<PlaceGpu> gpus;
  for (const std::string& list : lists) {
    for (const auto word : split(list, ',')) {
      GPUWARDEN_TRY(PlaceGpu gpu, gpu_named(std::string(trim(word)), knowledge));
      add(gpus, std::move(gpu));
    }
  }
  return gpus;
}

std::optional<Version> take_branch_for_serving(Place& place) {
  if (!place.driver || *place.driver != Version{.major = place.driver->major}) return std::nullopt;
  Version least = *place.driver;
  for (const PlaceGpu& gpu : place.gpus) {
    if (gpu.model == nullptr) continue;
    const Version first = knowledge::first_drivers_of(*gpu.model).of_branch(least.major);
    if (first.major == least.major) least = std::max(least, first);
  }
  if (least == *place.driver) return std::nullopt;
  place.driver = least;
  return least;
}

}  // namespace gpuwarden::compat
