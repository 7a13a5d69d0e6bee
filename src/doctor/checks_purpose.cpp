// SPDX-License-Identifier: Apache-2.0
// What the machine is to be good for (doctor --for): judged before anything is installed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "doctor/software_plan.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/planning/gpu_count.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::TorchBuild;
using knowledge::Version;

const facts::PythonEnvironment& any_python(const Subject& subject) {
  static const facts::PythonEnvironment kNone;
  return subject.environment.pythons.empty() ? kNone : subject.environment.pythons.front();
}

/// The version that is judged: the one asked for, else the one installed, else the newest that runs here.
struct Wanted {
  std::optional<Version> version;
  std::optional<std::string> build;
  bool installed = false;
};

std::optional<Wanted> installed_one(const Subject& subject, const Purpose::Package& package) {
  if (package.name == "torch") {
    const auto all = torches(subject);
    if (all.empty()) return std::nullopt;
    const Torch& torch = all.front();
    return Wanted{Version::parse(torch.version), torch.build.empty() ? std::nullopt : std::optional(torch.build), true};
  }
  for (const auto& python : subject.environment.pythons) {
    if (const auto version = package_version(python, package.name)) return Wanted{version, std::nullopt, true};
  }
  return std::nullopt;
}

/// The newest row of a package's needs that this driver and these GPUs meet; nullptr: none, or nothing is known.
const knowledge::PackageNeeds* newest_needs_here(const Subject& subject, std::string_view name) {
  const auto driver = driver_of(subject);
  const knowledge::PackageNeeds* best = nullptr;
  for (const knowledge::PackageNeeds& row : subject.knowledge.packages()) {
    if (row.package != name || (best != nullptr && row.first < best->first)) continue;
    const auto least = row.min_driver ? std::optional(row.min_driver)
                       : row.cuda     ? subject.knowledge.min_driver(row.cuda, false)
                                      : std::nullopt;
    if (driver && least && *driver < *least) continue;
    if (gpus_below(subject, row.min_capability).empty()) best = &row;
  }
  return best;
}

Wanted newest_here(const Subject& subject, std::string_view name) {
  const auto architectures = all_architectures(subject);
  if (name == "vllm") {
    const auto releases = subject.knowledge.vllm_releases();
    const auto* row = knowledge::newest_vllm_for(subject.knowledge, architectures, driver_of(subject));
    if (row == nullptr && !releases.empty()) row = &releases.back();
    return {row == nullptr ? std::nullopt : std::optional(row->first), std::nullopt, false};
  }
  if (name != "torch") {
    const auto* row = newest_needs_here(subject, name);
    return {row == nullptr ? std::nullopt : std::optional(row->first), std::nullopt, false};
  }
  const auto* wheel =
      knowledge::newest_torch_for(subject.knowledge, architectures, driver_of(subject), wheel_machine(subject));
  return {wheel == nullptr ? subject.knowledge.newest_torch() : wheel->torch, std::nullopt, false};
}

Wanted wanted(const Subject& subject) {
  const auto& package = *subject.purpose.package;
  if (package.version) return {Version::parse(*package.version), package.build, false};
  if (package.build) return {subject.knowledge.newest_torch(), package.build, false};
  if (const auto found = installed_one(subject, package)) return *found;
  return newest_here(subject, package.name);
}

/// "vllm 0.18.0, which is installed,", or the purpose as it was written.
std::string name_of(const Subject& subject) {
  const auto& package = *subject.purpose.package;
  const Wanted one = wanted(subject);
  if (package.version || !one.version || !*one.version) return subject.purpose.text;
  return fmt::format("{} {}{}", package.name, to_string(*one.version), one.installed ? ", which is installed," : "");
}

/// The release of vLLM that is wanted, by the needs of the nearest one that is known; nullptr: none is wanted.
const knowledge::VllmRelease* vllm_wanted(const Subject& subject) {
  if (!subject.purpose.package || subject.purpose.package->name != "vllm") return nullptr;
  const Wanted one = wanted(subject);
  return one.version ? subject.knowledge.vllm_near(*one.version) : nullptr;
}

/// What is known of another package that is wanted; nullptr: nothing.
const knowledge::PackageNeeds* needs_wanted(const Subject& subject) {
  if (!subject.purpose.package) return nullptr;
  return subject.knowledge.package(subject.purpose.package->name, wanted(subject).version);
}

/// The wheels that the purpose names; for vLLM those of the PyTorch that it takes, for the CUDA of one of its wheels.
std::vector<const TorchBuild*> wheels_for(const Subject& subject) {
  const auto& package = *subject.purpose.package;
  const Wanted one = wanted(subject);
  const auto* vllm = vllm_wanted(subject);
  std::vector<const TorchBuild*> wheels;
  if (package.name != "torch" && vllm == nullptr) return wheels;
  const auto torch = vllm != nullptr ? std::optional(vllm->torch) : one.version;
  if (!torch) return wheels;
  const auto cuda =
      vllm == nullptr ? std::nullopt : knowledge::vllm_cuda_for(subject.knowledge, *vllm, driver_of(subject));
  const int major = cuda ? cuda->major : vllm != nullptr ? vllm->cuda.major : 0;
  for (const TorchBuild* wheel : subject.knowledge.torch_builds_of(*torch, wheel_machine(subject))) {
    if (vllm != nullptr && !one.build && !wheel->build.contains(fmt::format("cu{}", major))) continue;
    if (!one.build || wheel->build == *one.build) wheels.push_back(wheel);
  }
  return wheels;
}

bool has_code(const TorchBuild& wheel, int architecture) {
  return std::ranges::any_of(split(wheel.architectures, ';'),
                             [&](std::string_view entry) { return knowledge::code_runs_on(entry, architecture); });
}

void no_such_build(const Subject& subject, Report& report) {
  if (!subject.purpose.package || subject.purpose.package->name != "torch") return;
  const auto& package = *subject.purpose.package;
  const auto version = package.version ? Version::parse(*package.version) : std::nullopt;
  if (!version || !package.build || !wheels_for(subject).empty()) return;
  if (knowledge::is_cpu_build(*package.build)) return;  // has no row: it asks nothing of GPU and driver
  std::vector<std::string> builds;
  for (const auto* wheel : subject.knowledge.torch_builds_of(*version)) builds.emplace_back(wheel->build);
  if (builds.empty()) return;  // newer than the knowledge base
  report.say(
      fmt::format("PyTorch {} has no build {}; it has {}", to_string(*version), *package.build, join(builds, ", ")),
      {pip_install_torch(any_python(subject), to_string(*version), builds.back())});
}

/// The least driver of what is wanted; empty: not known.
std::optional<Version> driver_wanted(const Subject& subject) {
  const auto wheels = wheels_for(subject);
  if (!wheels.empty()) return std::ranges::min(wheels, {}, &TorchBuild::min_driver)->min_driver;
  const auto* needs = needs_wanted(subject);
  if (needs == nullptr) return std::nullopt;
  if (needs->min_driver) return needs->min_driver;
  return needs->cuda ? subject.knowledge.min_driver(needs->cuda, false) : std::nullopt;
}

void purpose_driver(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!subject.purpose.package || !driver) return;
  const auto least = driver_wanted(subject);
  if (!least || *driver >= *least) return;
  const Version needed = *least;
  report.say(fmt::format("{} needs driver {} or newer; {} is installed", name_of(subject), to_string(needed),
                         to_string(*driver)),
             plan_driver(subject, report, {.at_least = needed.major}));
}

void purpose_gpu(const Subject& subject, Report& report) {
  if (!subject.purpose.package) return;
  const auto wheels = wheels_for(subject);
  if (wheels.empty()) return;
  const auto gpus = gpus_that(subject, [&](const facts::GpuRecord& gpu) {
    const auto architecture = architecture_of(subject, gpu.gpu);
    return architecture &&
           std::ranges::none_of(wheels, [&](const auto* wheel) { return has_code(*wheel, *architecture); });
  });
  if (gpus.empty()) return;
  const int architecture = *architecture_of(subject, gpus[0]->gpu);
  report.say(fmt::format("{} has no code for {} ({}, sm_{})", name_of(subject), name_gpus(gpus), gpus[0]->gpu.name,
                         architecture),
             fitting_torch(subject));
}

/// "gpuwarden compat --gpu 'Tesla P40'", for those who know the other machine's GPU.
std::string what_runs(const Subject& subject) {
  const auto gpus = nvidia_gpus(subject);
  return gpus.empty() || gpus[0]->gpu.name.empty()
             ? "[@nvidia] send also: nvidia-smi"
             : fmt::format("gpuwarden compat --gpu {}   # what runs on it", shell_word(gpus[0]->gpu.name));
}

/// The least compute capability of what is wanted; 0: not known.
int least_capability(const Subject& subject) {
  if (!subject.purpose.package) return 0;
  if (const auto* vllm = vllm_wanted(subject)) return vllm->min_capability;
  const auto* needs = needs_wanted(subject);
  return needs == nullptr ? 0 : needs->min_capability;
}

void purpose_capability(const Subject& subject, Report& report) {
  const int least = least_capability(subject);
  const auto* needs = needs_wanted(subject);
  const auto newer = gpus_that(subject, [&](const facts::GpuRecord& gpu) {
    return needs != nullptr && needs->max_capability != 0 &&
           architecture_of(subject, gpu.gpu).value_or(0) > needs->max_capability;
  });
  if (!newer.empty())
    report.say(fmt::format("{} has no kernels beyond compute capability {}; {} {} ({})", name_of(subject),
                           capability_text(needs->max_capability), name_gpus(newer, "has", "have"),
                           capability_text(architecture_of(subject, newer[0]->gpu).value_or(0)), newer[0]->gpu.name),
               {here_or_elsewhere(subject, "gpuwarden compat   # what runs on this GPU", what_runs(subject))});
  const auto gpus = gpus_below(subject, least);
  if (least == 0 || gpus.empty()) return;
  report.say(fmt::format("{} needs compute capability {}; {} {} ({})", name_of(subject), capability_text(least),
                         name_gpus(gpus, "has", "have"),
                         capability_text(architecture_of(subject, gpus[0]->gpu).value_or(0)), gpus[0]->gpu.name),
             {here_or_elsewhere(subject, "gpuwarden compat   # what runs on this GPU", what_runs(subject))});
}

/// An older release of vLLM whose own needs are not recorded, one that is to come: said, so that silence means
/// something.
void purpose_not_known(const Subject& subject, Report& report) {
  const auto& purpose = subject.purpose;
  if (purpose.architecture && subject.knowledge.architecture(*purpose.architecture) == nullptr) {
    report.say(fmt::format("nothing is known about sm_{}: it was not judged", *purpose.architecture));
    return;
  }
  if (!purpose.package) return;
  const auto& package = *purpose.package;
  const auto version = package.version ? Version::parse(*package.version) : std::nullopt;
  const auto* vllm = vllm_wanted(subject);
  if (vllm != nullptr && version && *version > subject.knowledge.vllm_releases().back().last) {
    report.say(fmt::format("vLLM {} is newer than what this program knows (as of {}); it was judged as {}",
                           *package.version, subject.knowledge.as_of(), to_string(vllm->first)));
    return;
  }
  if (package.name == "torch" && version && *version > subject.knowledge.newest_torch()) {
    report.say(fmt::format("PyTorch {} is newer than what this program knows (as of {}; newest: {}): it was not judged",
                           *package.version, subject.knowledge.as_of(), to_string(subject.knowledge.newest_torch())));
    return;
  }
  const bool judged = vllm != nullptr || needs_wanted(subject) != nullptr ||
                      (package.name == "torch" && (!wheels_for(subject).empty() || package.build));
  if (judged) return;
  report.say(
      fmt::format("what {} needs of driver and GPU is not in the knowledge base: only what is installed was judged",
                  purpose.text),
      {"gpuwarden compat " + shell_word(package.name) + "   # what is published of it"});
}

/// "releases 0.4.27 to 0.8.99", "releases from 0.9.0 on", "its releases".
std::string releases_of(const knowledge::PackageNeeds& row) {
  if (row.last) return fmt::format("releases {} to {}", to_string(row.first), to_string(row.last));
  return row.first ? fmt::format("releases from {} on", to_string(row.first)) : "its releases";
}

/// What is judged of a package that is not installed: by what its own pages ask for.
void say_needs(const Subject& subject, const knowledge::PackageNeeds& row, Report& report) {
  const auto driver = driver_wanted(subject);
  std::vector<std::string> asks;
  if (row.min_capability > 0) asks.push_back("compute capability " + capability_text(row.min_capability));
  if (driver) asks.push_back("driver " + to_string(*driver));
  if (row.torch) asks.push_back("PyTorch " + to_string(row.torch));
  std::vector<std::string> steps{std::string(row.install)};
  if (!row.note.empty()) steps.push_back(knowledge::with_kind("nvidia", row.note));
  report.say(fmt::format("{} is not installed; {} run here{}", row.package, releases_of(row),
                         asks.empty() ? ", as far as is known" : fmt::format(" (they ask for {})", join(asks, ", "))),
             std::move(steps));
}

/// Why nothing can be said of what runs here; empty: the GPUs and their driver are known.
std::string why_not_judged(const Subject& subject) {
  const auto gpus = nvidia_gpus(subject);
  if (gpus.empty()) return "its needs are known for NVIDIA GPUs only";
  const auto unknown =
      gpus_that(subject, [&](const facts::GpuRecord& gpu) { return !architecture_of(subject, gpu.gpu); });
  if (!unknown.empty()) return fmt::format("the compute capability of {} is not known", name_gpus(unknown));
  return driver_of(subject) ? "" : "the driver is not known";
}

/// A version of the row, the newest where there are several: pip knows those that came after this program.
std::string vllm_step(const Subject& subject, const knowledge::VllmRelease& row, const Version& cuda) {
  if (row.other_cuda && cuda == row.other_cuda)
    return knowledge::vllm_command(subject.knowledge, row, knowledge::release_number(row.first), driver_of(subject)) +
           "   # or a later release, in all its places";
  const bool newest = row.first == subject.knowledge.vllm_releases().back().first;
  return newest ? fmt::format("pip install 'vllm>={}'", to_string(row.first))
                : fmt::format("pip install 'vllm>={},<={}'", to_string(row.first), to_string(row.last));
}

/// "0.28 or later runs here", "releases 0.23 to 0.26.99 run here"; else why none does, and what helps.
void say_vllm(const Subject& subject, const knowledge::VllmRelease& nearest, Report& report) {
  const auto cuda = knowledge::vllm_cuda_for(subject.knowledge, nearest, driver_of(subject));
  if (!cuda) {
    const auto least = driver_wanted(subject);
    report.say(fmt::format("vLLM is not installed; no release that is known runs here: {} needs a newer driver",
                           to_string(nearest.first)),
               plan_driver(subject, report, {.at_least = least ? least->major : 0}));
    return;
  }
  if (knowledge::newest_vllm_for(subject.knowledge, all_architectures(subject), driver_of(subject)) == nullptr) {
    report.say("vLLM is not installed; no release that is known runs on all of these GPUs",
               {here_or_elsewhere(subject, "gpuwarden compat   # what runs on this GPU", what_runs(subject))});
    return;
  }
  const bool newest = nearest.first == subject.knowledge.vllm_releases().back().first;
  const std::string which =
      newest ? fmt::format("{} or later runs", to_string(nearest.first))
             : fmt::format("releases {} to {} run", to_string(nearest.first), to_string(nearest.last));
  report.say(fmt::format("vLLM is not installed; {} here, with the wheel for CUDA {}", which, to_string(*cuda)),
             {vllm_step(subject, nearest, *cuda)});
}

void say_torch(const Subject& subject, const Version& version, Report& report) {
  const bool runs = knowledge::newest_torch_for(subject.knowledge, all_architectures(subject), driver_of(subject),
                                                wheel_machine(subject)) != nullptr;
  report.say(runs ? fmt::format("PyTorch is not installed; {} is the newest known here that runs on these GPUs and "
                                "this driver",
                                to_string(version))
                  : "PyTorch is not installed; no build that is known runs on all of these GPUs and this driver",
             fitting_torch(subject));
}

/// Nobody has asked for a version, and none is installed: which one was judged.
void purpose_chosen(const Subject& subject, Report& report) {
  const auto& package = subject.purpose.package;
  if (!package || package->version || package->build || subject.snapshot.gpus.empty()) return;
  const Wanted one = wanted(subject);
  const bool torch = package->name == "torch";
  const auto* vllm = vllm_wanted(subject);
  const auto* needs = needs_wanted(subject);
  if (one.installed || !one.version || (!torch && vllm == nullptr && needs == nullptr)) return;
  if (const std::string why = why_not_judged(subject); !why.empty()) {
    report.say(fmt::format("{} is not installed, and which release runs here was not judged: {}", package->name, why),
               {fmt::format("gpuwarden compat {}   # what is published of it", shell_word(package->name))});
  } else if (torch) {
    say_torch(subject, *one.version, report);
  } else if (vllm != nullptr) {
    say_vllm(subject, *vllm, report);
  } else {
    say_needs(subject, *needs, report);
  }
}

void purpose_architecture(const Subject& subject, Report& report) {
  if (!subject.purpose.architecture || subject.environment.toolkits.empty()) return;
  const int architecture = *subject.purpose.architecture;
  const bool able = std::ranges::any_of(subject.environment.toolkits, [&](const facts::Toolkit& toolkit) {
    const auto version = Version::parse(toolkit.version);
    return version && subject.knowledge.can_target(*version, architecture).value_or(true);
  });
  const auto range = subject.knowledge.toolkits_for(architecture);
  if (able || !range) return;
  report.say(fmt::format("no toolkit here compiles for sm_{}: it needs CUDA {}{}", architecture,
                         to_string(range->first), range->second ? " to " + to_string(range->second) : " or newer"),
             {"[@nvidia] https://developer.nvidia.com/cuda-toolkit-archive"});
}

void purpose_no_gpu(const Subject& subject, Report& report) {
  if (!subject.purpose.package && !subject.purpose.work) return;
  if (!subject.snapshot.gpus.empty()) return;
  if (platform_of(subject) == knowledge::Platform::macos)
    report.say(fmt::format("this is macOS, which has no CUDA for {}", subject.purpose.text),
               knowledge::steps_without_cuda());
  else
    report.say(fmt::format("there is no GPU for {}", subject.purpose.text),
               {"gpuwarden list   # what is seen, and why not more"});
}

/// As `gpuwarden plan` has it, cheapest first; else with how many of these GPUs.
std::vector<std::string> memory_steps(const planning::PlanAnswer& plan) {
  auto steps = planning::ways_to_fit(plan.search);
  const auto fewest = plan.search.smallest_gpus;
  if (steps.empty() && fewest && *fewest > plan.request.gpus.count)
    steps.push_back(fmt::format("{} x {} are enough", *fewest, plan.request.gpus.name));
  return steps;
}

void purpose_memory(const Subject& subject, Report& report) {
  if (!subject.purpose.work) return;
  planning::Workload work = *subject.purpose.work;
  const auto gpus = planning::gpus_of(subject.snapshot);
  if (!gpus || planning::count_gpus_for(work, *gpus)) return;
  work.fixed_micro_batch = true;
  const auto plan = planning::answer({.work = std::move(work), .gpus = *gpus});
  const std::string what = fmt::format("{} does not fit {} x {}", subject.purpose.text, gpus->count, gpus->name);
  if (!plan) {
    report.say(fmt::format("{}: {}", what, plan.error().message), {plan.error().hint});
    return;
  }
  const planning::Candidate& best = plan->best();
  const Bytes needed(static_cast<std::uint64_t>(best.estimate.expected()));
  report.say(
      fmt::format("{}: {}", what,
                  needed > gpus->usable ? fmt::format("{} needs {}{}, and {} are there", best.name, format_size(needed),
                                                      gpus->count > 1 ? " of each" : "", format_size(gpus->usable))
                                        : plan->search.reason),
      memory_steps(*plan));
}

constexpr auto kPurposeChecks = std::to_array<Check>({
    {"purpose-without-gpu", Area::device, Severity::critical, "whether there is a GPU for the purpose",
     "Nothing says that this machine has a GPU: no GPU was seen, or the text does not show one.", "gpuwarden list", "",
     purpose_no_gpu},
    {"purpose-build-unknown", Area::frameworks, Severity::error, "whether the build that is wanted exists",
     "No such wheel is known here; a newer one than the knowledge would be said to be so.",
     "PyTorch build matrix (pytorch/test-infra)", "https://pytorch.org/get-started/previous-versions/", no_such_build},
    {"purpose-needs-newer-driver", Area::driver, Severity::error, "the driver against what is wanted",
     "CUDA would not start.", "PyTorch RELEASE.md; CUDA compatibility guide",
     "https://docs.nvidia.com/deploy/cuda-compatibility/", purpose_driver, "purpose-has-no-code-for-gpu"},
    {"purpose-has-no-code-for-gpu", Area::frameworks, Severity::error, "the GPUs against what is wanted",
     "Every kernel would fail: \"no kernel image is available\".", "PyTorch build matrix (pytorch/test-infra)", "",
     purpose_gpu},
    {"purpose-gpu-too-old", Area::frameworks, Severity::error, "the GPUs' compute capability against what is wanted",
     "It has no kernels for them.", "vLLM documentation, GPU installation (vllm table); flash-attention README", "",
     purpose_capability, "purpose-has-no-code-for-gpu"},
    {"purpose-not-known", Area::frameworks, Severity::info, "purposes of which nothing is known",
     "That nothing was found then says little.", "gpuwarden's knowledge base", "", purpose_not_known},
    {"purpose-version-chosen", Area::frameworks, Severity::info, "which version is judged where none is installed",
     "The newest release may ask for another driver than this one.", "vllm and torch tables", "", purpose_chosen},
    {"purpose-architecture-not-built", Area::toolkit, Severity::error, "the toolkits against the architecture",
     "nvcc would answer \"Unsupported gpu architecture\".", "CUDA release notes", "", purpose_architecture},
    {"purpose-needs-more-memory", Area::device, Severity::error, "the GPUs' memory against the model",
     "It is counted as gpuwarden plan counts it, on idle GPUs.", "docs/plan-equations.md", "", purpose_memory},
});

}  // namespace

std::span<const Check> purpose_checks() { return kPurposeChecks; }

}  // namespace gpuwarden::doctor
