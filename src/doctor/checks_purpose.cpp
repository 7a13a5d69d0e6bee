// SPDX-License-Identifier: Apache-2.0
// What the machine is to be good for (doctor --for): judged before anything is installed.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/lore.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::TorchBuild;
using knowledge::Version;

/// Bytes per parameter. Training: bf16 weights and gradients, fp32 master weights and two AdamW moments, 16 in all
/// (source: ZeRO, Rajbhandari et al. 2020, section 3.1), spread over all GPUs as FSDP does. Serving: bf16 weights.
constexpr double kTrainingBytes = 16;
constexpr double kServingBytes = 2;
/// What is left to activations, KV cache and the CUDA context, at least.
constexpr double kUsable = 0.85;

const facts::PythonEnvironment& any_python(const Subject& subject) {
  static const facts::PythonEnvironment kNone;
  return subject.environment.pythons.empty() ? kNone : subject.environment.pythons.front();
}

/// The wheels that the purpose names; for vLLM and others, those of the PyTorch that they need.
std::vector<const TorchBuild*> wheels_for(const Subject& subject) {
  const auto& package = *subject.purpose.package;
  std::optional<Version> torch;
  if (package.name == "torch" && package.version) torch = Version::parse(*package.version);
  if (package.name == "torch" && !package.version) torch = subject.knowledge.newest_torch();
  if (package.name == "vllm") {
    const auto releases = subject.knowledge.vllm_releases();
    const auto version = package.version ? Version::parse(*package.version) : std::nullopt;
    const auto* row = version ? subject.knowledge.vllm(*version) : releases.empty() ? nullptr : &releases.back();
    if (row != nullptr) torch = row->torch;
  }
  std::vector<const TorchBuild*> wheels;
  if (!torch) return wheels;
  for (const TorchBuild* wheel : subject.knowledge.torch_builds_of(*torch)) {
    if (!package.build || wheel->build == *package.build) wheels.push_back(wheel);
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
  std::vector<std::string> builds;
  for (const auto* wheel : subject.knowledge.torch_builds_of(*version)) builds.emplace_back(wheel->build);
  if (builds.empty()) return;  // newer than the knowledge base
  report.say(
      fmt::format("PyTorch {} has no build {}; it has {}", to_string(*version), *package.build, join(builds, ", ")),
      {pip_install_torch(any_python(subject), to_string(*version), builds.back())});
}

void purpose_driver(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!subject.purpose.package || !driver) return;
  const auto wheels = wheels_for(subject);
  if (wheels.empty() || std::ranges::any_of(wheels, [&](const auto* wheel) { return *driver >= wheel->min_driver; }))
    return;
  const Version needed = std::ranges::min(wheels, {}, &TorchBuild::min_driver)->min_driver;
  report.say(fmt::format("{} needs driver {} or newer; {} is installed", subject.purpose.text, to_string(needed),
                         to_string(*driver)),
             {fmt::format("gpuwarden driver plan --branch {}",
                          subject.knowledge.recommended_branch(needed.major, 0, subject.snapshot.taken_at))});
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
  const auto* other = subject.knowledge.torch_for(architecture, driver_of(subject));
  report.say(fmt::format("{} has no code for {} ({}, sm_{})", subject.purpose.text, name_gpus(gpus), gpus[0]->gpu.name,
                         architecture),
             {other != nullptr ? pip_install_torch(any_python(subject), to_string(other->torch), other->build)
                               : "gpuwarden compat   # what runs on this GPU"});
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
             {"https://developer.nvidia.com/cuda-toolkit-archive"});
}

void purpose_no_gpu(const Subject& subject, Report& report) {
  if (!subject.purpose.package && !subject.purpose.work) return;
  if (!subject.snapshot.gpus.empty()) return;
  report.say(fmt::format("there is no GPU for {}", subject.purpose.text),
             {"gpuwarden list   # what is seen, and why not more"});
}

void purpose_memory(const Subject& subject, Report& report) {
  if (!subject.purpose.work) return;
  const auto& work = *subject.purpose.work;
  double have = 0;
  for (const auto* gpu : nvidia_gpus(subject)) {
    const auto* model = model_of(subject, gpu->gpu);
    if (gpu->sample.memory_total)
      have += static_cast<double>(gpu->sample.memory_total->value);
    else if (model != nullptr)
      have += model->memory_gb * 1e9;
  }
  const double need = work.parameters * (work.training ? kTrainingBytes : kServingBytes);
  if (have == 0 || need <= have * kUsable) return;
  report.say(fmt::format("{} needs about {} for {} alone; the GPUs have {} together", subject.purpose.text,
                         format_size(Bytes(static_cast<std::uint64_t>(need))),
                         work.training ? "weights, gradients and AdamW" : "its weights",
                         format_size(Bytes(static_cast<std::uint64_t>(have)))),
             {work.training ? "train with LoRA or an 8-bit optimizer, or on more GPUs"
                            : "serve it quantized (8 or 4 bits per weight), or on more GPUs"});
}

constexpr auto kChecks = std::to_array<Check>({
    {"purpose-without-gpu", Area::device, Severity::critical, "whether there is a GPU for the purpose",
     "It would run on the CPU at best.", "gpuwarden list", "", purpose_no_gpu},
    {"purpose-build-unknown", Area::frameworks, Severity::error, "whether the build that is wanted exists",
     "pip would not find it.", "PyTorch build matrix (pytorch/test-infra)",
     "https://pytorch.org/get-started/previous-versions/", no_such_build},
    {"purpose-needs-newer-driver", Area::driver, Severity::error, "the driver against what is wanted",
     "CUDA would not start.", "PyTorch RELEASE.md; CUDA compatibility guide",
     "https://docs.nvidia.com/deploy/cuda-compatibility/", purpose_driver},
    {"purpose-has-no-code-for-gpu", Area::frameworks, Severity::error, "the GPUs against what is wanted",
     "Every kernel would fail: \"no kernel image is available\".", "PyTorch build matrix (pytorch/test-infra)", "",
     purpose_gpu},
    {"purpose-architecture-not-built", Area::toolkit, Severity::error, "the toolkits against the architecture",
     "nvcc would answer \"Unsupported gpu architecture\".", "CUDA release notes", "", purpose_architecture},
    {"purpose-needs-more-memory", Area::device, Severity::error, "the GPUs' memory against the model",
     "The model's state alone does not fit.",
     "16 bytes per parameter in mixed-precision training with Adam (ZeRO, 2020)", "https://arxiv.org/abs/1910.02054",
     purpose_memory},
});

}  // namespace

std::span<const Check> purpose_checks() { return kChecks; }

}  // namespace gpuwarden::doctor
