// SPDX-License-Identifier: Apache-2.0
// What serves models: vLLM, Triton, FlashAttention and flashinfer against GPUs, driver and PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "doctor/software_plan.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/knowledge/torch_companions.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using facts::PythonEnvironment;
using knowledge::Version;

constexpr std::string_view kVllmGpu = "https://docs.vllm.ai/en/latest/getting_started/installation/gpu.html";

/// The plan's vLLM; where it has none, what pip makes of this requirement.
std::vector<std::string> vllm_steps_or(const Subject& subject, Report& report, const PythonEnvironment& python,
                                       std::string_view requirement) {
  std::vector<std::string> steps = vllm_steps(subject, report, python);
  if (steps.empty()) steps.push_back(pip_install(python, requirement));
  return steps;
}

/// None of the GPUs has kernels of a release like this: what it is built for beside that is of no interest.
bool serves_no_gpu(const Subject& subject, const knowledge::VllmRelease& row) {
  const auto gpus = gpus_below(subject, row.min_capability);
  return !gpus.empty() && gpus.size() == nvidia_gpus(subject).size() &&
         knowledge::newest_vllm_for(subject.knowledge, all_architectures(subject), std::nullopt) == nullptr;
}

void vllm_torch(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto vllm = package_version(*torch.python, "vllm");
    const auto own = Version::parse(torch.version);
    const auto* row = vllm ? subject.knowledge.vllm(*vllm) : nullptr;
    const auto* package = facts::find_package(*torch.python, "vllm");
    // Builds from source are made for the torch that is there.
    if (row == nullptr || !own || package->version.contains("dev") || package->version.contains('+')) continue;
    // Wheels of other makers' GPUs and of the CPU come with a vLLM of their own.
    if (!torch.build.empty() && !torch.build.starts_with("cu")) continue;
    if (knowledge::release_of(*own) == knowledge::release_of(row->torch) || serves_no_gpu(subject, *row)) continue;
    report.say(fmt::format("vLLM {} is built for PyTorch {}, {} is installed{}", to_string(*vllm),
                           to_string(knowledge::release_of(row->torch)), torch.version, where(*torch.python)),
               vllm_steps_or(subject, report, *torch.python, fmt::format("vllm=={}", package->version)));
  }
}

/// The needs of an installed vLLM; of one older than all that are known, those of the first.
const knowledge::VllmRelease* vllm_release(const Subject& subject, const Version& version) {
  const auto releases = subject.knowledge.vllm_releases();
  const auto* near = subject.knowledge.vllm_near(version);
  return near != nullptr || releases.empty() ? near : &releases.front();
}

void vllm_capability(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = package_version(python, "vllm");
    if (!vllm) continue;
    const auto* row = vllm_release(subject, *vllm);
    if (row == nullptr) continue;
    const int least = row->min_capability;
    const auto gpus = gpus_below(subject, least);
    if (gpus.empty()) continue;
    // The whole machine is of no use to it, or only a part. Pascal runs with builds of one's own
    // (vllm-project/vllm#6567).
    constexpr int kPascal = 60;
    const bool all = gpus.size() == nvidia_gpus(subject).size() && !gpus_below(subject, kPascal).empty();
    std::vector<std::string> steps = vllm_steps(subject, report, python);
    if (steps.empty()) steps = {"use llama.cpp or Ollama on this GPU, or vLLM on a newer one"};
    report.say(all ? Severity::error : Severity::warning,
               fmt::format("vLLM {}'s wheel needs compute capability {}; {} {} ({})", to_string(*vllm),
                           capability_text(least), name_gpus(gpus, "has", "have"),
                           capability_text(*architecture_of(subject, gpus[0]->gpu)), gpus[0]->gpu.name),
               std::move(steps));
  }
}

/// CUDA 13's libraries alone are installed: those of CUDA 12 are not found.
bool has_only_thirteen(const PythonEnvironment& python) {
  const auto any = [&](std::string_view ending) {
    return std::ranges::any_of(python.packages, [&](const facts::PythonPackage& package) {
      return package.name.starts_with("nvidia-") && package.name.ends_with(ending);
    });
  };
  return any("-cu13") && !any("-cu12");
}

/// The wheels on PyPI are built for CUDA 12 from 0.2.2 on, for 13 from 0.20 on; a PyTorch for another CUDA does not
/// bring the libraries that they look for. (Builds that vLLM names +cu130, and one's own, are for what is there.)
void vllm_cuda(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto vllm = package_version(*torch.python, "vllm");
    const auto* row = vllm ? subject.knowledge.vllm(*vllm) : nullptr;
    if (row == nullptr || !torch.cuda) continue;
    const bool older = torch.cuda->major < 12 && row->cuda.major >= 12;
    const bool newer = torch.cuda->major >= 13 && row->cuda.major == 12 && has_only_thirteen(*torch.python);
    if ((!older && !newer) || serves_no_gpu(subject, *row)) continue;
    const auto* package = facts::find_package(*torch.python, "vllm");
    // "0.6.3+cu118" was built for it; so was what its owner built.
    if (package->version.contains('+') || package->version.contains("dev")) continue;
    report.say(fmt::format("vLLM {}'s wheel is built for CUDA {}, PyTorch {} for {}{}", to_string(*vllm),
                           to_string(knowledge::release_of(row->cuda)), torch.version,
                           to_string(knowledge::release_of(*torch.cuda)), where(*torch.python)),
               vllm_steps_or(subject, report, *torch.python, fmt::format("vllm=={}", to_string(*vllm))));
  }
}

/// torch.compile and Triton compile a launcher in C at first use.
void no_compiler(const Subject& subject, Report& report) {
  if (!subject.environment.compilers_sought.value_or(false) || !subject.environment.compilers.empty()) return;
  if (nvidia_gpus(subject).empty()) return;
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda) continue;
    report.say("there is no C compiler: torch.compile and Triton need one at run time",
               {install_command(subject.environment, {"gcc", "gcc", "gcc", "gcc", "gcc"})});
    return;
  }
}

void vllm_driver(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!driver || nvidia_gpus(subject).empty() || uses_forward_compatibility(subject)) return;
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = package_version(python, "vllm");
    const auto* row = vllm ? vllm_release(subject, *vllm) : nullptr;
    // Before, the wheels were for CUDA 12, of which torch-needs-newer-driver speaks.
    constexpr int kFirstOfItsOwn = 13;
    if (row == nullptr || row->cuda.major < kFirstOfItsOwn) continue;
    const auto needed = subject.knowledge.min_driver(row->cuda, false);
    if (!needed || *driver >= *needed) continue;
    if (python.torch_cuda && !python.torch_cuda->starts_with(std::to_string(row->cuda.major))) continue;
    // It may have a wheel for an older CUDA, too.
    std::vector<std::string> steps = vllm_steps(subject, report, python);
    for (std::string& step : driver_steps_for_cuda(subject, report, row->cuda)) {
      if (std::ranges::find(steps, step) == steps.end()) steps.push_back(std::move(step));
    }
    report.say(fmt::format("vLLM {} comes built with CUDA {}, which needs driver {}; {} is installed", to_string(*vllm),
                           row->cuda.major, to_string(*needed), to_string(*driver)),
               std::move(steps));
  }
}

void vllm_blackwell(const Subject& subject, Report& report) {
  const auto gpus = gpus_of_architecture(subject, 120, 129);
  if (gpus.empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = package_version(python, "vllm");
    if (!vllm || knowledge::vllm_has_kernels(*vllm, *architecture_of(subject, gpus[0]->gpu))) continue;
    report.say(fmt::format("the wheel of vLLM {} has no kernels for {} ({}, sm_120)", to_string(*vllm), name_gpus(gpus),
                           gpus[0]->gpu.name),
               vllm_steps_or(subject, report, python, "vllm>=0.10"));
  }
}

/// PyTorch takes one release of Triton: a later fix of that, or another PyTorch. A nightly's is not known.
std::vector<std::string> steps_for_triton(const Subject& subject, Report& report, const PythonEnvironment& python,
                                          const Version& least) {
  const auto* const torch = facts::find_package(python, "torch");
  const auto own = torch == nullptr || torch->version.contains("dev") ? std::nullopt : Version::parse(torch->version);
  const auto* const pin = own ? knowledge::triton_for(*own) : nullptr;
  if (pin == nullptr) return {pip_install(python, fmt::format("triton>={}", to_string(least)))};
  const Version pinned = Version::parse(pin->triton).value_or(Version{});
  if (pinned >= least) return {triton_for(python, *pin)};
  if (knowledge::goes_with(*pin, least)) return {pip_install(python, fmt::format("triton=={}", to_string(least)))};
  return torch_steps(subject, report, python);
}

void triton_blackwell(const Subject& subject, Report& report) {
  const auto gpus = gpus_of_architecture(subject, 100, 129);
  constexpr Version kFirst{3, 3, 1};
  if (gpus.empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto triton = package_version(python, "triton");
    if (!triton || *triton >= kFirst) continue;
    report.say(fmt::format("Triton {}{} does not compile for {} ({}) reliably; 3.3.1 does", to_string(*triton),
                           where(python), name_gpus(gpus), gpus[0]->gpu.name),
               steps_for_triton(subject, report, python, kFirst));
  }
}

/// bfloat16, FlashAttention and most attention kernels begin with Ampere.
void before_ampere(const Subject& subject, Report& report) {
  const auto gpus = gpus_of_architecture(subject, 60, 79);
  if (gpus.empty()) return;
  for (const auto& python : subject.environment.pythons) {
    std::string user;
    for (const std::string_view name : {"vllm", "sglang"}) {
      if (user.empty() && facts::find_package(python, name) != nullptr) user = name;
    }
    if (user.empty()) continue;
    report.say(
        fmt::format("{} ({}, compute capability {}) cannot do bfloat16 or FlashAttention, which {} expects",
                    name_gpus(gpus), gpus[0]->gpu.name, capability_text(*architecture_of(subject, gpus[0]->gpu)), user),
        {user == "vllm" ? "vllm serve MODEL --dtype half   # without LoRA kernels and FlashAttention"
                        : "run in float16, with the attention of PyTorch or xFormers"});
  }
}

void flash_attention_four(const Subject& subject, Report& report) {
  const auto gpus = gpus_below(subject, 80);
  for (const auto& python : subject.environment.pythons) {
    const auto flash = package_version(python, "flash-attn");
    if (!flash || flash->major < 2 || gpus.empty()) continue;
    const bool all = gpus.size() == nvidia_gpus(subject).size();
    if (!all) continue;
    report.say(fmt::format("flash-attn {} needs Ampere or newer; {} is {}", to_string(*flash), name_gpus(gpus),
                           gpus[0]->gpu.name),
               {pip_uninstall(python, {"flash-attn"}) + "   # frameworks then take another attention"});
  }
}

/// "flashinfer 0.2.1+cu124torch2.4": extensions whose version names the one PyTorch and CUDA that they are made for.
void extension_differs(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    for (const facts::PythonPackage& package : torch.python->packages) {
      const knowledge::BuiltFor made = knowledge::built_for(package.version);
      if (!made.torch || !own || package.name == "torch") continue;
      const bool same_release = knowledge::release_of(*made.torch) == knowledge::release_of(*own);
      const bool same_cuda =
          made.cuda.empty() || !torch.build.starts_with("cu") || knowledge::is_same_cuda(made.cuda, torch.build);
      if (same_release && same_cuda) continue;
      report.say(fmt::format("{} {} is built for PyTorch {}{}, {} is installed", package.name, package.version,
                             to_string(*made.torch), same_cuda ? "" : " with " + made.cuda,
                             torch.version + (torch.build.empty() ? "" : "+" + torch.build)),
                 {pip_install(*torch.python, package.name, "--force-reinstall --no-deps --no-build-isolation")});
    }
  }
}

void vllm_and_mig(const Subject& subject, Report& report) {
  const bool mig =
      std::ranges::any_of(subject.snapshot.gpus, [](const GpuRecord& gpu) { return !gpu.mig_devices.empty(); });
  if (!mig) return;
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = package_version(python, "vllm");
    if (!vllm || knowledge::vllm_reads_mig_uuids(*vllm)) continue;
    std::vector<std::string> steps = vllm_steps_or(subject, report, python, "vllm>=0.10");
    steps.emplace_back("export CUDA_VISIBLE_DEVICES=0   # where only one instance is visible");
    report.say(fmt::format("vLLM {} reads CUDA_VISIBLE_DEVICES as numbers; a MIG instance's UUID there stops it",
                           to_string(*vllm)),
               std::move(steps));
  }
}

/// AMD GPUs that vLLM's ROCm builds leave out (source: vLLM documentation, installation, AMD ROCm; LLVM AMDGPU
/// processors). What other makers sell under a gfx number has builds of its own.
constexpr auto kRocmNotServed = std::to_array<std::string_view>(
    {"gfx803", "gfx900", "gfx902", "gfx906", "gfx908", "gfx909", "gfx90c", "gfx1010", "gfx1011", "gfx1012", "gfx1030",
     "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1102", "gfx1103"});

void vllm_rocm(const Subject& subject, Report& report) {
  for (const auto& gpu : subject.snapshot.gpus) {
    const std::string architecture = gpu.gpu.architecture.value_or("");
    if (gpu.gpu.vendor != "AMD" || !architecture.starts_with("gfx")) continue;
    if (std::ranges::find(kRocmNotServed, architecture) == kRocmNotServed.end()) continue;
    for (const auto& python : subject.environment.pythons) {
      if (facts::find_package(python, "vllm") == nullptr) continue;
      report.say(fmt::format("vLLM's ROCm builds have no kernels for {} ({})", gpu.gpu.name, architecture),
                 {fmt::format("build vLLM with PYTORCH_ROCM_ARCH={}", architecture)});
      return;
    }
  }
}

void source_build(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    const auto* vllm = facts::find_package(python, "vllm");
    if (vllm == nullptr || nvidia_gpus(subject).empty()) continue;
    if (!vllm->version.contains("dev")) continue;
    report.say(fmt::format("vLLM {} was built from source: its kernels are for the GPUs of the machine that built it",
                           vllm->version),
               {"TORCH_CUDA_ARCH_LIST='8.0;8.6;8.9;9.0' pip install -e .   # to build it for several kinds of GPU"});
  }
}

void mixed_generations(const Subject& subject, Report& report) {
  std::vector<int> seen;
  for (const auto* gpu : nvidia_gpus(subject)) {
    const auto architecture = architecture_of(subject, gpu->gpu);
    if (architecture && std::ranges::find(seen, *architecture) == seen.end()) seen.push_back(*architecture);
  }
  const bool serving = std::ranges::any_of(subject.environment.pythons, [](const PythonEnvironment& python) {
    return facts::find_package(python, "vllm") != nullptr || facts::find_package(python, "sglang") != nullptr;
  });
  if (seen.size() < 2 || !serving) return;
  std::vector<std::string> texts;
  for (const int architecture : seen) texts.push_back(capability_text(architecture));
  report.say(
      fmt::format("the GPUs have different compute capabilities ({}); kernels chosen for the first may fail on the "
                  "others",
                  join(texts, ", ")),
      {"export CUDA_DEVICE_ORDER=PCI_BUS_ID", "gpuwarden run --name 'RTX 4090' -- ...   # one kind at a time"});
}

constexpr auto kServingChecks = std::to_array<Check>({
    {"vllm-torch-differs", Area::frameworks, Severity::warning, "vLLM against PyTorch",
     "vLLM's kernels are compiled for one PyTorch release.", "vLLM requirements (vllm table)", kVllmGpu, vllm_torch,
     "torch-too-old-for-gpu torch-dropped-gpu torch-for-other-maker torch-without-cuda"},
    {"vllm-cuda-differs", Area::frameworks, Severity::warning, "vLLM's CUDA against PyTorch's",
     "Its kernels look for the libraries of the CUDA that they were built for: \"libcudart.so.12: cannot open\".",
     "vLLM documentation, GPU installation (vllm table)", kVllmGpu, vllm_cuda,
     "torch-without-cuda vllm-torch-differs torch-too-old-for-gpu torch-dropped-gpu"},
    {"jit-compiler-missing", Area::frameworks, Severity::warning, "a C compiler for torch.compile and Triton",
     "Without it they stop with \"Failed to find C compiler\".",
     "Triton, runtime/build.py; PyTorch documentation, torch.compile troubleshooting", "", no_compiler},
    {"vllm-gpu-too-old", Area::frameworks, Severity::error, "vLLM against the GPUs' compute capability",
     "vLLM has no kernels for them: \"no kernel image is available\".", "vLLM documentation, GPU installation",
     kVllmGpu, vllm_capability},
    {"vllm-needs-newer-driver", Area::frameworks, Severity::error, "vLLM's default CUDA against the driver",
     "The default wheel is built with CUDA 13 since 0.20.", "vLLM 0.20 release notes", kVllmGpu, vllm_driver,
     "torch-needs-newer-driver"},
    {"vllm-without-blackwell-kernels", Area::frameworks, Severity::error, "vLLM's kernels for sm_120",
     "It starts and then fails with \"no kernel image is available\".", "vllm-project/vllm#18835", kVllmGpu,
     vllm_blackwell, "torch-too-old-for-gpu"},
    {"triton-too-old-for-gpu", Area::frameworks, Severity::warning, "Triton against Blackwell",
     "torch.compile and many kernels are compiled by Triton.", "triton >= 3.3; vllm-project/vllm#20712", "",
     triton_blackwell, "torch-too-old-for-gpu vllm-torch-differs vllm-cuda-differs vllm-without-blackwell-kernels"},
    {"gpu-before-ampere-for-llm", Area::frameworks, Severity::warning, "what serving engines expect of a GPU",
     "bfloat16, FlashAttention and vLLM's LoRA kernels need compute capability 8.0.",
     "flash-attention README; vllm-project/vllm#5198, #10662", kVllmGpu, before_ampere, "vllm-gpu-too-old"},
    {"flash-attention-gpu-too-old", Area::frameworks, Severity::warning, "flash-attn against the GPUs",
     "FlashAttention 2 has kernels for Ampere and newer only.", "flash-attention README",
     "https://github.com/Dao-AILab/flash-attention", flash_attention_four, "gpu-before-ampere-for-llm"},
    {"extension-differs-from-torch", Area::frameworks, Severity::warning,
     "flash-attn, flashinfer and other extensions whose version names a PyTorch",
     "Their kernels are compiled for one PyTorch and CUDA: \"undefined symbol\" otherwise.",
     "wheel names of flashinfer, flash-attn and PyG", "", extension_differs, kBringsOtherTorch},
    {"vllm-reads-no-mig-uuids", Area::frameworks, Severity::warning, "vLLM with MIG instances",
     "It converts the entries of CUDA_VISIBLE_DEVICES to integers.", "vllm-project/vllm#17047", kVllmGpu, vllm_and_mig},
    {"vllm-without-kernels-for-amd-gpu", Area::frameworks, Severity::error, "vLLM's ROCm architectures",
     "Kernels fail with \"HIP error: invalid device function\".", "vLLM documentation, AMD ROCm", kVllmGpu, vllm_rocm},
    {"vllm-built-from-source", Area::frameworks, Severity::info, "development builds of vLLM",
     "Moved to another kind of GPU they fail with \"no kernel image is available\".", "vllm-project/vllm#11914",
     kVllmGpu, source_build},
    {"gpus-of-several-generations", Area::frameworks, Severity::warning, "serving on GPUs of several generations",
     "Engines choose kernels by the first GPU.", "vllm-project/vllm#19741", "", mixed_generations},
});

}  // namespace

std::span<const Check> serving_checks() { return kServingChecks; }

}  // namespace gpuwarden::doctor
