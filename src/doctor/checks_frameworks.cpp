// SPDX-License-Identifier: Apache-2.0
// PyTorch and what stands on it: against the driver, the GPUs, and each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/lore.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using facts::PythonEnvironment;
using knowledge::Version;

constexpr std::string_view kGetStarted = "https://pytorch.org/get-started/locally/";
constexpr std::string_view kVllmGpu = "https://docs.vllm.ai/en/latest/getting_started/installation/gpu.html";

std::optional<Version> version_of(const PythonEnvironment& python, std::string_view package) {
  const auto* found = facts::find_package(python, package);
  return found == nullptr ? std::nullopt : Version::parse(found->version);
}

/// The architectures of the GPUs, as far as they are known.
std::vector<int> all_architectures(const Subject& subject) {
  std::vector<int> all;
  for (const auto* gpu : nvidia_gpus(subject)) {
    if (const auto architecture = architecture_of(subject, gpu->gpu)) all.push_back(*architecture);
  }
  return all;
}

std::vector<const GpuRecord*> below(const Subject& subject, int architecture) {
  return gpus_that(subject, [&](const GpuRecord& gpu) {
    const auto own = architecture_of(subject, gpu.gpu);
    return own && *own < architecture;
  });
}

std::vector<const GpuRecord*> of_architecture(const Subject& subject, int first, int last) {
  return gpus_that(subject, [&](const GpuRecord& gpu) {
    const auto own = architecture_of(subject, gpu.gpu);
    return own && *own >= first && *own <= last;
  });
}

/// The command for a PyTorch that fits all GPUs and the driver; a sentence where there is none.
std::string fitting_torch(const Subject& subject, const PythonEnvironment& python, std::optional<Version> driver) {
  const auto architectures = all_architectures(subject);
  const auto* wheel =
      architectures.empty() ? nullptr : knowledge::newest_torch_for(subject.knowledge, architectures, driver);
  if (wheel == nullptr) return "no PyTorch wheel fits this GPU and driver; gpuwarden compat shows what would";
  return pip_install_torch(python, to_string(wheel->torch), wheel->build);
}

void cpu_build(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).empty()) return;
  for (const Torch& torch : torches(subject)) {
    if (torch.build != "cpu") continue;
    report.say(fmt::format("PyTorch {}{} was built without CUDA: it does not use the {}", torch.version,
                           where(*torch.python), nvidia_gpus(subject)[0]->gpu.name),
               {fitting_torch(subject, *torch.python, driver_of(subject))});
  }
}

void wrong_maker(const Subject& subject, Report& report) {
  const bool amd =
      std::ranges::any_of(subject.snapshot.gpus, [](const GpuRecord& gpu) { return gpu.gpu.vendor == "AMD"; });
  const bool nvidia = !nvidia_gpus(subject).empty();
  for (const Torch& torch : torches(subject)) {
    const bool rocm = torch.build.starts_with("rocm");
    if (rocm && nvidia && !amd)
      report.say(fmt::format("PyTorch {}{} was built for AMD (ROCm), the GPU is NVIDIA's", torch.version,
                             where(*torch.python)),
                 {fitting_torch(subject, *torch.python, driver_of(subject))});
    if (!rocm && amd && !nvidia && torch.cuda)
      report.say(fmt::format("PyTorch {}{} was built for NVIDIA (CUDA), the GPU is AMD's", torch.version,
                             where(*torch.python)),
                 {pip_install_torch(*torch.python, torch.version, "rocm6.2")});
  }
}

void driver_too_old(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!driver || nvidia_gpus(subject).empty()) return;
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda) continue;
    const auto needed = subject.knowledge.min_driver(*torch.cuda, false);
    if (!needed || *driver >= *needed) continue;
    // It works all the same: cuda-compat stands in for the driver's own library.
    const bool works = torch.python->cuda_available == true || uses_forward_compatibility(subject);
    report.say(works ? Severity::info : Severity::error,
               fmt::format("PyTorch {} (CUDA {}){} needs driver {} or newer; {} is installed{}", torch.version,
                           to_string(knowledge::release_of(*torch.cuda)), where(*torch.python), to_string(*needed),
                           to_string(*driver), works ? ", and runs by cuda-compat" : ""),
               {fmt::format("gpuwarden driver plan --cuda {}", to_string(knowledge::release_of(*torch.cuda))),
                fitting_torch(subject, *torch.python, driver) + "   # or a build for this driver"});
  }
}

void not_available(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).empty() || !driver_of(subject)) return;
  for (const Torch& torch : torches(subject)) {
    if (torch.python->cuda_available != false || !torch.cuda || torch.build == "cpu") continue;
    const auto* hidden = facts::find_variable(subject.environment, "CUDA_VISIBLE_DEVICES");
    if (hidden != nullptr && (hidden->empty() || *hidden == "-1")) continue;
    report.say(
        fmt::format("PyTorch {}{} sees no GPU (torch.cuda.is_available() is False), though {} and driver {} are "
                    "there",
                    torch.version, where(*torch.python), nvidia_gpus(subject)[0]->gpu.name,
                    to_string(*driver_of(subject))),
        {"python -c 'import torch; torch.cuda.init()'   # says why", "ls -l /dev/nvidia*   # may this user open them?",
         is_wsl(subject) ? "ldconfig -p | grep libcuda   # must be /usr/lib/wsl/lib's first"
                         : "gpuwarden doctor --only driver,libraries,containers"});
  }
}

/// GPUs for which the wheel has no code; `newer`: those that came after it.
std::vector<const GpuRecord*> without_code(const Subject& subject, const Torch& torch, bool newer) {
  if (torch.architectures.empty()) return {};
  return gpus_that(subject, [&](const GpuRecord& gpu) {
    const auto architecture = architecture_of(subject, gpu.gpu);
    if (!architecture || code_runs_on(torch.architectures, *architecture)) return false;
    bool any_older = false;
    for (const auto& entry : torch.architectures) {
      const std::string digits(entry.substr(entry.find('_') + 1));
      any_older =
          any_older || code_runs_on({"compute_" + digits.substr(0, digits.find_first_of("+af"))}, *architecture);
      any_older = any_older || code_runs_on({digits.substr(0, digits.find('+')) + "+PTX"}, *architecture);
    }
    return any_older == newer;
  });
}

void say_without_code(const Subject& subject, Report& report, bool newer) {
  for (const Torch& torch : torches(subject)) {
    const auto gpus = without_code(subject, torch, newer);
    if (gpus.empty()) continue;
    const int architecture = *architecture_of(subject, gpus[0]->gpu);
    const std::string has = join(torch.architectures, " ");
    report.say(fmt::format("PyTorch {}{}{} has no code for {} ({}, sm_{}); it has {}", torch.version,
                           torch.version.contains('+') || torch.build.empty() ? "" : "+" + torch.build,
                           where(*torch.python), name_gpus(gpus), gpus[0]->gpu.name, architecture, has),
               {fitting_torch(subject, *torch.python, driver_of(subject))});
  }
}

void gpu_too_new(const Subject& subject, Report& report) { say_without_code(subject, report, true); }
void gpu_dropped(const Subject& subject, Report& report) { say_without_code(subject, report, false); }

void debug_build(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    if (torch.python->torch_debug != true) continue;
    report.say(fmt::format("PyTorch {}{} is a debug build", torch.version, where(*torch.python)),
               {fitting_torch(subject, *torch.python, driver_of(subject))});
  }
}

void numpy_two(const Subject& subject, Report& report) {
  constexpr Version kFirstForNumpyTwo{2, 3};
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto numpy = version_of(*torch.python, "numpy");
    if (!own || !numpy || numpy->major < 2 || *own >= kFirstForNumpyTwo) continue;
    report.say(fmt::format("PyTorch {} was built for NumPy 1, NumPy {} is installed{}", torch.version,
                           to_string(*numpy), where(*torch.python)),
               {pip_install(*torch.python, "numpy<2")});
  }
}

/// torchvision 0.N of torch 2.M is N = M + 15; of 1.M, N = M + 1 (source: pytorch/vision README, since torch 1.7).
std::optional<int> torchvision_minor(const Version& torch) {
  if (torch.major == 2) return torch.minor + 15;
  if (torch.major == 1 && torch.minor >= 7) return torch.minor + 1;
  return std::nullopt;
}

void companions_differ(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto vision = version_of(*torch.python, "torchvision");
    const auto audio = version_of(*torch.python, "torchaudio");
    const auto wanted = own ? torchvision_minor(*own) : std::nullopt;
    std::vector<std::string> wrong;
    // From 2.9 on torchaudio is released on its own.
    if (vision && wanted && vision->major == 0 && vision->minor != *wanted)
      wrong.push_back(fmt::format("torchvision {} (needs 0.{})", to_string(*vision), *wanted));
    if (audio && own && own->major == 2 && own->minor <= 8 &&
        knowledge::release_of(*audio) != knowledge::release_of(*own))
      wrong.push_back(fmt::format("torchaudio {}", to_string(*audio)));
    if (wrong.empty()) continue;
    report.say(
        fmt::format("PyTorch {}{} does not go with {}", torch.version, where(*torch.python), join(wrong, ", ")),
        {fmt::format("{} torchvision torchaudio",
                     pip_install_torch(*torch.python, torch.version, torch.build.empty() ? "cu128" : torch.build))});
  }
}

void python_not_served(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto python = Version::parse(torch.python->version.value_or(""));
    const auto* row = own ? subject.knowledge.torch(*own, torch.build) : nullptr;
    if (row == nullptr || !python) continue;
    const Version release = knowledge::release_of(*python);
    if (release >= row->python_lowest && release <= Version{row->python_highest.major, row->python_highest.minor + 1})
      continue;
    report.say(
        fmt::format("PyTorch {} is made for Python {} to {}, this is {}", torch.version, to_string(row->python_lowest),
                    to_string(row->python_highest), to_string(release)),
        {fmt::format("python{} -m venv torch-env   # and install PyTorch there", to_string(row->python_highest))});
  }
}

void two_cuda_majors(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    std::vector<std::string> eleven;
    std::vector<std::string> others;
    for (const auto& package : python.packages) {
      if (!package.name.starts_with("nvidia-")) continue;
      if (package.name.ends_with("-cu11")) eleven.push_back(package.name);
      if (package.name.ends_with("-cu12") || package.name.ends_with("-cu13")) others.push_back(package.name);
    }
    if (eleven.empty() || others.empty()) continue;
    report.say(fmt::format("NVIDIA's libraries are installed for two CUDA releases{}: {} and {}", where(python),
                           eleven[0], others[0]),
               {fmt::format("pip uninstall {}", join(eleven, " "))});
  }
}

void onnxruntime_twice(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    const auto* cpu = facts::find_package(python, "onnxruntime");
    const auto* gpu = facts::find_package(python, "onnxruntime-gpu");
    if (cpu == nullptr || gpu == nullptr) continue;
    report.say(
        fmt::format("onnxruntime and onnxruntime-gpu are both installed{}: the CPU one hides the other", where(python)),
        {"pip uninstall onnxruntime onnxruntime-gpu", pip_install(python, "onnxruntime-gpu")});
  }
}

void jax_without_cuda(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto jaxlib = version_of(python, "jaxlib");
    constexpr Version kFirstWithPlugins{0, 4, 27};
    if (!jaxlib || *jaxlib < kFirstWithPlugins) continue;
    const bool plugin = std::ranges::any_of(python.packages, [](const auto& package) {
      return package.name.starts_with("jax-cuda") && package.name.contains("plugin");
    });
    if (plugin) continue;
    const auto driver = driver_of(subject);
    report.say(fmt::format("JAX {}{} has no CUDA plugin: it runs on the CPU", to_string(*jaxlib), where(python)),
               {pip_install(python, driver && driver->major >= 580 ? "jax[cuda13]" : "jax[cuda12]")});
  }
}

void vllm_torch(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto vllm = version_of(*torch.python, "vllm");
    const auto own = Version::parse(torch.version);
    const auto* row = vllm ? subject.knowledge.vllm(*vllm) : nullptr;
    const auto* package = facts::find_package(*torch.python, "vllm");
    // Builds from source are made for the torch that is there.
    if (row == nullptr || !own || package->version.contains("dev") || package->version.contains('+')) continue;
    if (knowledge::release_of(*own) == knowledge::release_of(row->torch)) continue;
    report.say(fmt::format("vLLM {} is built for PyTorch {}, {} is installed{}", to_string(*vllm),
                           to_string(knowledge::release_of(row->torch)), torch.version, where(*torch.python)),
               {pip_install(*torch.python, fmt::format("vllm=={}", package->version))});
  }
}

void vllm_capability(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = version_of(python, "vllm");
    if (!vllm) continue;
    const auto* row = subject.knowledge.vllm(*vllm);
    constexpr Version kFirstForTuring{0, 20};
    const int least = row != nullptr ? row->min_capability : *vllm >= kFirstForTuring ? 75 : 70;
    const auto gpus = below(subject, least);
    if (gpus.empty()) continue;
    // The whole machine is of no use to it, or only a part.
    const bool all = gpus.size() == nvidia_gpus(subject).size();
    report.say(
        all ? Severity::error : Severity::warning,
        fmt::format("vLLM {} needs compute capability {}; {} ({}) has {}", to_string(*vllm), capability_text(least),
                    name_gpus(gpus), gpus[0]->gpu.name, capability_text(*architecture_of(subject, gpus[0]->gpu))),
        {"use llama.cpp or Ollama on this GPU, or vLLM on a newer one"});
  }
}

void vllm_driver(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  constexpr Version kFirstForCudaThirteen{0, 20};
  constexpr Version kNeeds{580};
  if (!driver || *driver >= kNeeds || nvidia_gpus(subject).empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = version_of(python, "vllm");
    if (!vllm || *vllm < kFirstForCudaThirteen || uses_forward_compatibility(subject)) continue;
    if (python.torch_cuda && !python.torch_cuda->starts_with("13")) continue;
    report.say(fmt::format("vLLM {} comes built with CUDA 13, which needs driver 580; {} is installed",
                           to_string(*vllm), to_string(*driver)),
               {fmt::format("uv pip install 'vllm=={}' --torch-backend=cu129", to_string(*vllm)),
                "gpuwarden driver plan --cuda 13.0"});
  }
}

/// The released wheels up to 0.9.0 have no kernels for 12.0 (vllm-project/vllm#18835).
void vllm_blackwell(const Subject& subject, Report& report) {
  const auto gpus = of_architecture(subject, 120, 129);
  constexpr Version kLastWithout{0, 9, 0};
  if (gpus.empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = version_of(python, "vllm");
    if (!vllm || knowledge::Version{vllm->major, vllm->minor, vllm->patch} > kLastWithout) continue;
    report.say(fmt::format("the wheel of vLLM {} has no kernels for {} ({}, sm_120)", to_string(*vllm), name_gpus(gpus),
                           gpus[0]->gpu.name),
               {pip_install(python, "vllm>=0.10")});
  }
}

void triton_blackwell(const Subject& subject, Report& report) {
  const auto gpus = of_architecture(subject, 100, 129);
  constexpr Version kFirst{3, 3, 1};
  if (gpus.empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto triton = version_of(python, "triton");
    if (!triton || *triton >= kFirst) continue;
    report.say(fmt::format("Triton {}{} does not compile for {} ({}) reliably; 3.3.1 does", to_string(*triton),
                           where(python), name_gpus(gpus), gpus[0]->gpu.name),
               {pip_install(python, "triton>=3.3.1")});
  }
}

/// bfloat16, FlashAttention and most attention kernels begin with Ampere.
void before_ampere(const Subject& subject, Report& report) {
  const auto gpus = of_architecture(subject, 60, 79);
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
  const auto gpus = below(subject, 80);
  for (const auto& python : subject.environment.pythons) {
    const auto flash = version_of(python, "flash-attn");
    if (!flash || flash->major < 2 || gpus.empty()) continue;
    const bool all = gpus.size() == nvidia_gpus(subject).size();
    if (!all) continue;
    report.say(fmt::format("flash-attn {} needs Ampere or newer; {} is {}", to_string(*flash), name_gpus(gpus),
                           gpus[0]->gpu.name),
               {fmt::format("pip uninstall flash-attn   # frameworks then take another attention{}", where(python))});
  }
}

/// "flashinfer 0.2.1+cu124torch2.4": made for one PyTorch and one CUDA.
void flashinfer_differs(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    for (const std::string_view name : {"flashinfer", "flashinfer-python"}) {
      const auto* package = facts::find_package(*torch.python, name);
      const std::size_t at = package == nullptr ? std::string::npos : package->version.find("torch");
      const auto made_for = at == std::string::npos ? std::nullopt : Version::parse(package->version.substr(at + 5));
      if (!made_for || !own || knowledge::release_of(*made_for) == knowledge::release_of(*own)) continue;
      report.say(fmt::format("{} {} is built for PyTorch {}, {} is installed", name, package->version,
                             to_string(*made_for), torch.version),
                 {pip_install(*torch.python, fmt::format("{} --force-reinstall", name))});
    }
  }
}

void vllm_and_mig(const Subject& subject, Report& report) {
  const bool mig =
      std::ranges::any_of(subject.snapshot.gpus, [](const GpuRecord& gpu) { return !gpu.mig_devices.empty(); });
  constexpr Version kFirstThatTakesUuids{0, 10};
  if (!mig) return;
  for (const auto& python : subject.environment.pythons) {
    const auto vllm = version_of(python, "vllm");
    if (!vllm || *vllm >= kFirstThatTakesUuids) continue;
    report.say(
        fmt::format("vLLM {} reads CUDA_VISIBLE_DEVICES as numbers; a MIG instance's UUID there stops it",
                    to_string(*vllm)),
        {pip_install(python, "vllm>=0.10"), "export CUDA_VISIBLE_DEVICES=0   # where only one instance is visible"});
  }
}

/// AMD GPUs that vLLM's ROCm builds serve (source: vLLM documentation, installation, AMD ROCm).
constexpr auto kRocmServed = std::to_array<std::string_view>(
    {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201"});

void vllm_rocm(const Subject& subject, Report& report) {
  for (const auto& gpu : subject.snapshot.gpus) {
    const std::string architecture = gpu.gpu.architecture.value_or("");
    if (gpu.gpu.vendor != "AMD" || !architecture.starts_with("gfx")) continue;
    if (std::ranges::find(kRocmServed, architecture) != kRocmServed.end()) continue;
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

constexpr auto kChecks = std::to_array<Check>({
    {"torch-needs-newer-driver", Area::frameworks, Severity::error, "PyTorch's CUDA against the driver",
     "CUDA programs need a driver of their major release at least (cudaErrorInsufficientDriver).",
     "CUDA compatibility guide, minor-version compatibility; PyTorch RELEASE.md", kGetStarted, driver_too_old},
    {"torch-too-old-for-gpu", Area::frameworks, Severity::error, "PyTorch's compiled architectures, newer GPUs",
     "Without code for the GPU every kernel fails: \"no kernel image is available\".",
     "torch.cuda.get_arch_list(); PyTorch build matrix; pytorch/pytorch#150733", kGetStarted, gpu_too_new},
    {"torch-dropped-gpu", Area::frameworks, Severity::error, "PyTorch's compiled architectures, older GPUs",
     "Newer builds leave old GPUs out: cu126 is the last for Maxwell, Pascal and Volta.",
     "PyTorch build matrix (pytorch/test-infra)", kGetStarted, gpu_dropped},
    {"torch-without-cuda", Area::frameworks, Severity::warning, "CPU builds of PyTorch beside a GPU",
     "Everything runs, but on the CPU.", "PyTorch installation guide", kGetStarted, cpu_build},
    {"torch-for-other-maker", Area::frameworks, Severity::error, "PyTorch's platform against the GPU's maker",
     "CUDA and ROCm builds do not run on each other's GPUs.", "PyTorch installation guide", kGetStarted, wrong_maker},
    {"torch-cuda-unavailable", Area::frameworks, Severity::error, "torch.cuda.is_available()",
     "PyTorch falls back to the CPU or stops.", "PyTorch documentation, torch.cuda", kGetStarted, not_available,
     "torch-needs-newer-driver driver-library-mismatch driver-missing driver-not-loaded nvml-unknown-error "
     "uvm-not-loaded device-nodes-missing device-nodes-not-permitted device-nodes-blocked container-without-gpu "
     "visible-devices-empty nouveau-loaded libcuda-compat-unfit libcuda-stub-first reported-cuda-error "
     "fabric-manager-not-running"},
    {"torch-debug-build", Area::frameworks, Severity::warning, "debug builds of PyTorch",
     "A debug build is many times slower.", "PyTorch collect_env", "", debug_build},
    {"numpy-too-new-for-torch", Area::frameworks, Severity::warning, "NumPy's major release against PyTorch",
     "PyTorch before 2.3 cannot exchange arrays with NumPy 2: \"Numpy is not available\".",
     "NumPy 2.0 migration guide; PyTorch 2.3 release notes", "", numpy_two},
    {"torch-companions-differ", Area::frameworks, Severity::warning, "torchvision and torchaudio against PyTorch",
     "They are built for one PyTorch release: operators such as torchvision::nms are missing otherwise.",
     "pytorch/vision README, version table", "https://github.com/pytorch/vision#installation", companions_differ},
    {"python-not-served-by-torch", Area::frameworks, Severity::warning, "Python's version against PyTorch's wheels",
     "There are no wheels for it; what is installed was built by somebody else.", "PyTorch RELEASE.md", kGetStarted,
     python_not_served},
    {"cuda-libraries-of-two-releases", Area::frameworks, Severity::warning, "NVIDIA's pip packages for CUDA 11 and 12",
     "Whichever is loaded first wins, for all frameworks of the process.", "PyPI: nvidia-*-cu11, nvidia-*-cu12", "",
     two_cuda_majors},
    {"onnxruntime-twice", Area::frameworks, Severity::warning, "onnxruntime beside onnxruntime-gpu",
     "Both install the same module; the CPU one wins.", "ONNX Runtime documentation, install", "", onnxruntime_twice},
    {"jax-without-cuda", Area::frameworks, Severity::warning, "JAX's CUDA plugin",
     "JAX without it uses the CPU, with a warning only.", "JAX documentation, installation",
     "https://docs.jax.dev/en/latest/installation.html", jax_without_cuda},
    {"vllm-torch-differs", Area::frameworks, Severity::warning, "vLLM against PyTorch",
     "vLLM's kernels are compiled for one PyTorch release.", "vLLM requirements (vllm table)", kVllmGpu, vllm_torch},
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
     triton_blackwell, "torch-too-old-for-gpu"},
    {"gpu-before-ampere-for-llm", Area::frameworks, Severity::warning, "what serving engines expect of a GPU",
     "bfloat16, FlashAttention and vLLM's LoRA kernels need compute capability 8.0.",
     "flash-attention README; vllm-project/vllm#5198, #10662", kVllmGpu, before_ampere, "vllm-gpu-too-old"},
    {"flash-attention-gpu-too-old", Area::frameworks, Severity::warning, "flash-attn against the GPUs",
     "FlashAttention 2 has kernels for Ampere and newer only.", "flash-attention README",
     "https://github.com/Dao-AILab/flash-attention", flash_attention_four, "gpu-before-ampere-for-llm"},
    {"flashinfer-differs-from-torch", Area::frameworks, Severity::warning, "flashinfer's build against PyTorch",
     "Its kernels are compiled for one PyTorch and CUDA.", "flashinfer's wheel names", "", flashinfer_differs},
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

std::span<const Check> framework_checks() { return kChecks; }

}  // namespace gpuwarden::doctor
