// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"

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

Place place_of(const facts::Snapshot& snapshot, const Knowledge& knowledge) {
  Place place{.gpus = {}, .driver = driver_of(snapshot), .origin = "this machine", .simulated = snapshot.simulated};
  if (snapshot.environment && snapshot.environment->host.machine) place.machine = *snapshot.environment->host.machine;
  place.problem = snapshot.problem;
  if (snapshot.simulated) place.origin = snapshot.fleet;
  for (const auto& record : snapshot.gpus) {
    if (record.gpu.vendor == "NVIDIA") add(place.gpus, gpu_of(record.gpu, knowledge));
  }
  return place;
}

Result<std::vector<PlaceGpu>> gpus_named(const std::vector<std::string>& lists, const Knowledge& knowledge) {
  std::vector<PlaceGpu> gpus;
  for (const std::string& list : lists) {
    for (const auto word : split(list, ',')) {
      const std::string name(trim(word));
      const auto models = knowledge::models_named(knowledge, name);
      const auto architecture =
          models.empty() ? knowledge.architecture_of_name(name) : knowledge::architecture_of(*models[0]);
      if (!architecture)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("there is no GPU '{}' in the knowledge base", printable(name)),
                    "name it as nvidia-smi does, for example \"RTX 4090\", or add it in a file for --knowledge");
      PlaceGpu gpu{.name = name, .architecture = architecture};
      if (!models.empty()) {
        gpu.name = models[0]->name;
        gpu.model = models[0];
        // "RTX 5090" is that one, "A100" all of its kind.
        const bool exact = to_lower(gpu.name).ends_with(to_lower(name));
        gpu.meant = exact ? std::vector{models[0]} : models;
      }
      add(gpus, std::move(gpu));
    }
  }
  return gpus;
}

}  // namespace gpuwarden::compat
