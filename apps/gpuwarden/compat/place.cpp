// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"
#include "machine.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::Knowledge;
using knowledge::Version;

/// Below that there was no CUDA.
constexpr int kFirstBranch = 100;

void add(std::vector<PlaceGpu>& gpus, PlaceGpu gpu) {
  const auto same = std::ranges::find(gpus, gpu.name, &PlaceGpu::name);
  if (same != gpus.end())
    ++same->count;
  else
    gpus.push_back(std::move(gpu));
}

Result<std::vector<PlaceGpu>> named_gpus(const std::vector<std::string>& names, const Knowledge& knowledge) {
  std::vector<PlaceGpu> gpus;
  for (const std::string& list : names) {
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

Result<Place> of_machine(Context& context, const Knowledge& knowledge) {
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const facts::Snapshot snapshot = machine.read();
  Place place{.driver = driver_of(snapshot), .origin = "this machine", .simulated = snapshot.simulated};
  place.captured = machine.captured().has_value();
  if (place.captured) place.origin = machine.capture_name();
  if (machine.simulated()) place.origin = snapshot.fleet;
  place.problem = snapshot.problem;
  for (const auto& record : snapshot.gpus) {
    if (record.gpu.vendor == "NVIDIA") add(place.gpus, gpu_of(record.gpu, knowledge));
  }
  return place;
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

Result<Place> read_place(Context& context, const Knowledge& knowledge, bool machine_counts) {
  const auto names = context.args.all("gpus");
  const auto driver = context.args.text("driver");
  const bool told = context.args.has("from") || context.args.has("simulate");
  Place place{.origin = "what was named"};
  if (told || (machine_counts && names.empty() && !driver)) {
    GPUWARDEN_TRY(place, of_machine(context, knowledge));
  }
  if (!names.empty()) {
    GPUWARDEN_TRY(place.gpus, named_gpus(names, knowledge));
    place.named = true;
  }
  if (driver) {
    place.driver = Version::parse(*driver);
    if (!place.driver || place.driver->major < kFirstBranch)
      return fail(ErrorCode::invalid_argument, fmt::format("--driver: '{}' is no driver version", printable(*driver)),
                  "for example 550.54.15 or 550");
  }
  return place;
}

}  // namespace gpuwarden::cli::compat
