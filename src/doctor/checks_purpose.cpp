// SPDX-License-Identifier: Apache-2.0
// What the machine is to be good for (doctor --for): judged before anything is installed.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::TorchBuild;
using knowledge::Version;

const facts::PythonEnvironment& any_python(const Subject& subject) {
  static const facts::PythonEnvironment kNone;
  return subject.environment.pythons.empty() ? kNone : subject.environment.pythons.front();
}

/// The release of vLLM that is wanted, by the needs of the nearest one that is known; nullptr: none is wanted.
const knowledge::VllmRelease* vllm_wanted(const Subject& subject) {
  if (!subject.purpose.package || subject.purpose.package->name != "vllm") return nullptr;
  const auto& text = subject.purpose.package->version;
  const auto releases = subject.knowledge.vllm_releases();
  const auto version = text ? Version::parse(*text) : std::nullopt;
  if (version) return subject.knowledge.vllm_near(*version);
  return releases.empty() ? nullptr : &releases.back();
}

/// The wheels that the purpose names; for vLLM and others, those of the PyTorch that they need.
std::vector<const TorchBuild*> wheels_for(const Subject& subject) {
  const auto& package = *subject.purpose.package;
  std::optional<Version> torch;
  if (package.name == "torch" && package.version) torch = Version::parse(*package.version);
  if (package.name == "torch" && !package.version) torch = subject.knowledge.newest_torch();
  // vLLM's wheel is built for one CUDA release, and takes the PyTorch of that.
  const auto* vllm = vllm_wanted(subject);
  if (vllm != nullptr) torch = vllm->torch;
  std::vector<const TorchBuild*> wheels;
  if (!torch) return wheels;
  for (const TorchBuild* wheel : subject.knowledge.torch_builds_of(*torch)) {
    if (vllm != nullptr && !package.build && !wheel->build.contains(fmt::format("cu{}", vllm->cuda.major))) continue;
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

/// The least compute capability of what is wanted; 0: not known. FlashAttention 2's README names Ampere.
int least_capability(const Subject& subject) {
  if (!subject.purpose.package) return 0;
  if (const auto* vllm = vllm_wanted(subject)) return vllm->min_capability;
  constexpr int kAmpere = 80;
  return subject.purpose.package->name == "flash-attn" ? kAmpere : 0;
}

void purpose_capability(const Subject& subject, Report& report) {
  const int least = least_capability(subject);
  const auto gpus = gpus_below(subject, least);
  if (least == 0 || gpus.empty()) return;
  report.say(fmt::format("{} needs compute capability {}; {} {} ({})", subject.purpose.text, capability_text(least),
                         name_gpus(gpus, "has", "have"),
                         capability_text(architecture_of(subject, gpus[0]->gpu).value_or(0)), gpus[0]->gpu.name),
             {"gpuwarden compat   # what runs on this GPU"});
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
    report.say(fmt::format("vLLM {} is newer than this version's knowledge; it was judged as {}", *package.version,
                           to_string(vllm->first)));
    return;
  }
  const bool judged = vllm != nullptr || least_capability(subject) != 0 ||
                      (package.name == "torch" && (!wheels_for(subject).empty() || package.build));
  if (judged) return;
  report.say(
      fmt::format("what {} needs of driver and GPU is not in the knowledge base: only what is installed was judged",
                  purpose.text),
      {"gpuwarden compat " + shell_word(package.name)});
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
  const double need = knowledge::bytes_needed({.training = work.training, .parameters = work.parameters});
  if (have == 0 || need <= have * knowledge::kUsableMemory) return;
  report.say(fmt::format("{} needs about {} for {} alone; the GPUs have {} together", subject.purpose.text,
                         format_size(Bytes(static_cast<std::uint64_t>(need))),
                         work.training ? "weights, gradients and AdamW" : "weights and cache",
                         format_size(Bytes(static_cast<std::uint64_t>(have)))),
             {work.training ? "train with LoRA or an 8-bit optimizer, or on more GPUs"
                            : "serve it quantized (8 or 4 bits per weight), or on more GPUs"});
}

constexpr auto kPurposeChecks = std::to_array<Check>({
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
    {"purpose-gpu-too-old", Area::frameworks, Severity::error, "the GPUs' compute capability against what is wanted",
     "It has no kernels for them.", "vLLM documentation, GPU installation (vllm table); flash-attention README", "",
     purpose_capability, "purpose-has-no-code-for-gpu"},
    {"purpose-not-known", Area::frameworks, Severity::info, "purposes of which nothing is known",
     "That nothing was found then says little.", "gpuwarden's knowledge base", "", purpose_not_known},
    {"purpose-architecture-not-built", Area::toolkit, Severity::error, "the toolkits against the architecture",
     "nvcc would answer \"Unsupported gpu architecture\".", "CUDA release notes", "", purpose_architecture},
    {"purpose-needs-more-memory", Area::device, Severity::error, "the GPUs' memory against the model",
     "The model's state alone does not fit.",
     "16 bytes per parameter in mixed-precision training with Adam (ZeRO, 2020)", "https://arxiv.org/abs/1910.02054",
     purpose_memory},
});

}  // namespace

std::span<const Check> purpose_checks() { return kPurposeChecks; }

}  // namespace gpuwarden::doctor
