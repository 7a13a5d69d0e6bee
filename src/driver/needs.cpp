// SPDX-License-Identifier: Apache-2.0
#include "driver/needs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "driver/words.hpp"

namespace gpuwarden::driver {

using knowledge::GpuModel;
using knowledge::Knowledge;
using knowledge::OpenModule;
using knowledge::Version;

namespace {

const GpuModel* model_of(const facts::Gpu& gpu, const Knowledge& knowledge) {
  if (const GpuModel* known = knowledge.model(gpu.name, gpu.pci_device_id)) return known;
  // A model that is not in the tables: any one of its architecture has the same limits.
  std::optional<int> number = knowledge.architecture_of_name(gpu.name);
  if (gpu.compute_capability) number = gpu.compute_capability->major * 10 + gpu.compute_capability->minor;
  const auto same = std::ranges::find_if(knowledge.models(), [&](const GpuModel& model) {
    return number && model.capability_major * 10 + model.capability_minor == *number;
  });
  return same == knowledge.models().end() ? nullptr : &*same;
}

void add_needs(Needs& needs, const std::string& name, const GpuModel& model) {
  const auto first = knowledge::first_drivers_of(name, model.first_driver_branch);
  needs.first.emplace_back(name, first);
  if (first.lowest().major > needs.lowest) {
    needs.lowest = first.lowest().major;
    needs.lowest_name = name;
    needs.lowest_words = text_of(first);
  }
  if (model.last_driver_branch != 0 && (needs.highest == 0 || model.last_driver_branch < needs.highest)) {
    needs.highest = model.last_driver_branch;
    needs.highest_name = name;
  }
  if (model.open_module == OpenModule::required) needs.only_open = name;
  if (model.open_module == OpenModule::unsupported) needs.only_proprietary = name;
}

/// The CUDA version of a purpose, and in `why` the words for it.
std::optional<Version> cuda_of(const DriverRequest& request, const Knowledge& knowledge, std::string& why,
                               Version& at_least) {
  if (request.cuda) {
    why = fmt::format("CUDA {}", knowledge::to_string(*request.cuda));
    return request.cuda;
  }
  if (!request.purpose || !request.purpose->package) return std::nullopt;
  const auto& package = *request.purpose->package;
  why = request.purpose->text;
  const auto version = package.version ? Version::parse(*package.version) : std::nullopt;
  if (package.name == "vllm") {
    const auto* const release = version ? knowledge.vllm(*version) : nullptr;
    if (release != nullptr) return release->cuda;
    return knowledge.vllm_releases().empty() ? std::nullopt : std::optional(knowledge.vllm_releases().back().cuda);
  }
  if (package.name != "torch") return std::nullopt;
  const auto builds = knowledge.torch_builds_of(version.value_or(knowledge.newest_torch()));
  const auto found = std::ranges::find_if(builds, [&](const knowledge::TorchBuild* build) {
    return package.build ? build->build == *package.build : build->is_default;
  });
  if (found != builds.end()) {
    at_least = (*found)->min_driver;
    why += fmt::format(" (build {})", (*found)->build);
    return knowledge::cuda_of_build((*found)->build);
  }
  return package.build ? knowledge::cuda_of_build(*package.build) : std::nullopt;
}

/// A driver alone does not help a GPU for which that CUDA version builds no code.
void warn_of_dropped(const DriverFacts& facts, const Version& cuda, const Knowledge& knowledge,
                     Recommendation& answer) {
  for (const auto& record : facts.snapshot.gpus) {
    const GpuModel* const model = record.gpu.vendor == "NVIDIA" ? model_of(record.gpu, knowledge) : nullptr;
    if (model == nullptr) continue;
    const int architecture = model->capability_major * 10 + model->capability_minor;
    if (knowledge.can_target(cuda, architecture).value_or(true)) continue;
    std::string text = fmt::format("CUDA {} builds no code for {} (sm_{}), whatever the driver",
                                   knowledge::to_string(cuda), model->name, architecture);
    if (std::ranges::find(answer.warnings, text) == answer.warnings.end()) answer.warnings.push_back(std::move(text));
  }
}

/// The driver that a CUDA version needs. Fails with unsatisfied where the tables know nothing of it.
Result<Version> driver_for_cuda(const Version& cuda, const std::string& why, const Knowledge& knowledge,
                                Recommendation& answer) {
  const auto native = knowledge.min_driver(cuda, true);
  const auto floor = knowledge.min_driver(cuda, false);
  if (native && floor && *floor < *native)
    answer.reasons.push_back(
        fmt::format("{} needs driver {} for all of its features; {} suffices by minor-version compatibility, without "
                    "new PTX",
                    why, knowledge::to_string(*native), knowledge::to_string(*floor)));
  else if (native)
    answer.reasons.push_back(fmt::format("{} needs driver {}", why, knowledge::to_string(*native)));
  if (native) return *native;
  if (!floor)
    return fail(ErrorCode::unsatisfied, fmt::format("no data on which driver {} needs", why),
                "gpuwarden compat lists the CUDA versions that are known");
  answer.warnings.push_back(
      fmt::format("{} is not in the tables; all of its major release run on driver {} by minor-version compatibility",
                  why, knowledge::to_string(*floor)));
  return *floor;
}

}  // namespace

Needs needs_of(const DriverFacts& facts, const Knowledge& knowledge) {
  Needs needs;
  for (const auto& record : facts.snapshot.gpus) {
    if (record.gpu.vendor != "NVIDIA") continue;
    needs.seen = true;
    const std::string name = record.gpu.name.empty() ? record.gpu.pci_bus_id : record.gpu.name;
    const GpuModel* model = model_of(record.gpu, knowledge);
    if (model != nullptr)
      add_needs(needs, name, *model);
    else
      needs.unknown.push_back(name);
  }
  return needs;
}

Result<void> heed_purpose(const DriverFacts& facts, const DriverRequest& request, const Knowledge& knowledge,
                          Recommendation& answer) {
  std::string why;
  Version at_least;
  const auto cuda = cuda_of(request, knowledge, why, at_least);
  if (cuda) {
    warn_of_dropped(facts, *cuda, knowledge, answer);
    GPUWARDEN_TRY(const Version needed, driver_for_cuda(*cuda, why, knowledge, answer));
    at_least = std::max(at_least, needed);
  } else if (request.purpose && request.purpose->architecture) {
    for (const GpuModel& model : knowledge.models()) {
      if (model.capability_major * 10 + model.capability_minor != *request.purpose->architecture) continue;
      at_least = Version{.major = model.first_driver_branch};
      answer.reasons.push_back(
          fmt::format("{} is served from R{} on", request.purpose->text, model.first_driver_branch));
      break;
    }
  } else if (request.purpose) {
    answer.warnings.push_back(fmt::format("nothing is known about the driver that {} needs", request.purpose->text));
  }
  answer.at_least = at_least;
  answer.lowest = std::max(answer.lowest, at_least.major);
  return {};
}

void heed_site(const DriverFacts& facts, const DriverRequest& request, const Knowledge& knowledge,
               Recommendation& answer) {
  for (const auto& record : facts.snapshot.gpus) {
    const GpuModel* const model = record.gpu.vendor == "NVIDIA" ? model_of(record.gpu, knowledge) : nullptr;
    if (model == nullptr) continue;
    const knowledge::Situation situation{.gpu = std::string(model->name),
                                         .architecture = model->architecture,
                                         .capability = model->capability_major * 10 + model->capability_minor,
                                         .workload = request.purpose ? request.purpose->text : ""};
    for (const knowledge::SiteRule& rule : knowledge.rules()) {
      const Version wanted = std::max({rule.driver_minimum, rule.driver_required, rule.driver_recommended});
      if (!wanted || !knowledge::concerns(rule, situation)) continue;
      std::string reason =
          fmt::format("the site's rule {} wants driver {} for {}", rule.id, knowledge::to_string(wanted), model->name);
      if (std::ranges::find(answer.reasons, reason) == answer.reasons.end())
        answer.reasons.push_back(std::move(reason));
      answer.at_least = std::max(answer.at_least, wanted);
      answer.lowest = std::max(answer.lowest, wanted.major);
    }
  }
}

}  // namespace gpuwarden::driver
