// SPDX-License-Identifier: Apache-2.0
// PyTorch and what stands on it: against the driver, the GPUs, and each other.
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
using knowledge::RunsOn;
using knowledge::Version;

constexpr std::string_view kGetStarted = "https://pytorch.org/get-started/locally/";

/// The other way out, which is none of the commands: a PyTorch for the driver that is there.
std::vector<std::string> or_build_for_driver(std::vector<std::string> steps, const Subject& subject,
                                             const PythonEnvironment& python, const Version& driver) {
  const std::vector<std::string> builds = torch_for_driver(subject, python, driver);
  const bool is_said = !builds.empty() && std::ranges::find(steps, builds.front()) != steps.end();
  if (!builds.empty() && !is_said) steps.push_back("[@nvidia] or, with this driver: " + join(builds, "; then: "));
  return steps;
}

void cpu_build(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).empty()) return;
  for (const Torch& torch : torches(subject)) {
    if (torch.build != "cpu") continue;
    // Who sends a report with one Python in it means that one; a machine may have others, for the CPU on purpose.
    // vLLM brings a PyTorch with CUDA along, unless it was built for the CPU.
    const bool only =
        is_elsewhere(subject) && torches(subject).size() == 1 && facts::find_package(*torch.python, "vllm") == nullptr;
    report.say(only ? Severity::error : Severity::warning,
               fmt::format("PyTorch {}{} was built without CUDA: it does not use the {}", torch.version,
                           where(*torch.python), nvidia_gpus(subject)[0]->gpu.name),
               torch_steps(subject, report, *torch.python));
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
                 torch_steps(subject, report, *torch.python));
    if (!rocm && amd && !nvidia && torch.cuda)
      report.say(
          fmt::format("PyTorch {}{} was built for NVIDIA (CUDA), the GPU is AMD's", torch.version,
                      where(*torch.python)),
          {"install the ROCm build: https://pytorch.org/get-started/locally/ has the command for each ROCm release"});
  }
}

/// A text that tells of GPUs and PyTorch, and not of the driver between them.
void say_driver_needed(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto needed = torch.cuda ? subject.knowledge.min_driver(*torch.cuda, false) : std::nullopt;
    if (!needed || torch.python->cuda_available) continue;
    report.say(Severity::info,
               fmt::format("PyTorch {} (CUDA {}){} needs driver {} or newer; which driver there is, is not told",
                           torch.version, to_string(knowledge::release_of(*torch.cuda)), where(*torch.python),
                           to_string(*needed)),
               {send_also(subject)});
  }
}

void driver_too_old(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (nvidia_gpus(subject).empty()) return;
  if (!driver && is_elsewhere(subject)) say_driver_needed(subject, report);
  if (!driver) return;
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda) continue;
    const auto needed = subject.knowledge.min_driver(*torch.cuda, false);
    if (!needed || *driver >= *needed) continue;
    // It works all the same: cuda-compat stands in for the driver's own library.
    const bool works = torch.python->cuda_available == true || uses_forward_compatibility(subject);
    // No driver for a PyTorch that has to go anyhow.
    std::vector<std::string> steps =
        is_replaced_by_vllm(subject, *torch.python)
            ? torch_steps(subject, report, *torch.python)
            : or_build_for_driver(driver_steps_for_cuda(subject, report, knowledge::release_of(*torch.cuda)), subject,
                                  *torch.python, *driver);
    report.say(works ? Severity::info : Severity::error,
               fmt::format("PyTorch {} (CUDA {}){} needs driver {} or newer; {} is installed{}", torch.version,
                           to_string(knowledge::release_of(*torch.cuda)), where(*torch.python), to_string(*needed),
                           to_string(*driver), works ? ", and runs by cuda-compat" : ""),
               std::move(steps));
  }
}

/// Also explains why nvidia-smi shows a lower CUDA version than PyTorch, and yet all is well.
void by_minor_version(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  const auto own = driver_cuda(subject);
  if (!driver || !own || nvidia_gpus(subject).empty()) return;
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda || subject.knowledge.runs_on(*torch.cuda, *driver) != RunsOn::by_minor_version) continue;
    const std::string release = to_string(knowledge::release_of(*torch.cuda));
    report.say(
        fmt::format("PyTorch {} (CUDA {}){} runs on driver {}, whose own CUDA is {}: what is compiled runs; what "
                    "is compiled at run time may ask for the newer driver",
                    torch.version, release, where(*torch.python), to_string(*driver), to_string(*own)),
        driver_steps_for_cuda(subject, report, knowledge::release_of(*torch.cuda)));
    return;
  }
}

/// A report that says that PyTorch sees no GPU, and not which PyTorch: on a Jetson, usually one from PyPI.
void not_available_to_unnamed(const Subject& subject, Report& report) {
  for (const PythonEnvironment& python : subject.environment.pythons) {
    if (python.cuda_available != false || facts::find_package(python, "torch") != nullptr) continue;
    std::vector<std::string> steps = torch_steps(subject, report, python);
    steps.insert(steps.begin(),
                 "python -c 'import torch; print(torch.__version__, torch.version.cuda)'   # None: built without CUDA");
    report.say(fmt::format("PyTorch{} sees no GPU (torch.cuda.is_available() is False), though {} is there",
                           where(python), nvidia_gpus(subject)[0]->gpu.name),
               std::move(steps));
  }
}

void not_available(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).empty()) return;
  not_available_to_unnamed(subject, report);
  if (!driver_of(subject)) return;
  for (const Torch& torch : torches(subject)) {
    if (torch.python->cuda_available != false || !torch.cuda || torch.build == "cpu") continue;
    const auto* hidden = facts::find_variable(subject.environment, "CUDA_VISIBLE_DEVICES");
    if (hidden != nullptr && hides_all_gpus(*hidden)) continue;
    report.say(
        fmt::format("PyTorch {}{} sees no GPU (torch.cuda.is_available() is False), though {} and driver {} are "
                    "there",
                    torch.version, where(*torch.python), nvidia_gpus(subject)[0]->gpu.name,
                    to_string(*driver_of(subject))),
        {"python -c 'import torch; torch.cuda.init()'   # says why", "ls -l /dev/nvidia*   # may this user open them?",
         is_wsl(subject) ? "ldconfig -p | grep libcuda   # must be /usr/lib/wsl/lib's first"
                         : here_or_elsewhere(subject, "gpuwarden doctor --only driver,libraries,containers",
                                             "in a container: is it started with --gpus all?")});
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
               torch_steps(subject, report, *torch.python));
  }
}

void gpu_too_new(const Subject& subject, Report& report) { say_without_code(subject, report, true); }
void gpu_dropped(const Subject& subject, Report& report) { say_without_code(subject, report, false); }

void debug_build(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    if (torch.python->torch_debug != true) continue;
    report.say(fmt::format("PyTorch {}{} is a debug build", torch.version, where(*torch.python)),
               torch_steps(subject, report, *torch.python));
  }
}

void numpy_two(const Subject& subject, Report& report) {
  constexpr Version kFirstForNumpyTwo{2, 3};
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto numpy = package_version(*torch.python, "numpy");
    if (!own || !numpy || numpy->major < 2 || *own >= kFirstForNumpyTwo) continue;
    report.say(fmt::format("PyTorch {} was built for NumPy 1, NumPy {} is installed{}", torch.version,
                           to_string(*numpy), where(*torch.python)),
               {pip_install(*torch.python, "numpy<2")});
  }
}

/// "torchvision 0.24.1 (made for PyTorch 2.9)": what is installed beside a PyTorch and made for another one.
std::vector<std::string> of_other_releases(const Torch& torch, const Version& own) {
  std::vector<std::string> wrong;
  for (const facts::PythonPackage& package : torch.python->packages) {
    const auto* made = knowledge::torch_companion(package.name, package.version);
    if (made != nullptr && !knowledge::goes_with(*made, own))
      wrong.push_back(fmt::format("{} {} (made for PyTorch {}{})", package.name, package.version, made->torch,
                                  made->or_newer ? " or newer" : ""));
  }
  return wrong;
}

/// "torchvision 0.21.0+cu126 (PyTorch is built for cu124)": its kernels want the other CUDA's libraries.
std::vector<std::string> of_other_builds(const Torch& torch) {
  std::vector<std::string> wrong;
  if (!torch.build.starts_with("cu")) return wrong;
  for (const facts::PythonPackage& package : torch.python->packages) {
    if (!knowledge::is_torch_companion(package.name)) continue;
    const std::string cuda = knowledge::built_for(package.version).cuda;
    if (!cuda.empty() && !knowledge::is_same_cuda(cuda, torch.build))
      wrong.push_back(fmt::format("{} {} (PyTorch is built for {})", package.name, package.version, torch.build));
  }
  return wrong;
}

/// " torchvision torchaudio xformers==0.0.33.post2": those that are installed, of the releases that go with it.
std::string companions_for(const Torch& torch, const Version& own) {
  const auto fitting = knowledge::companions_of(own);
  std::string names;
  for (const facts::PythonPackage& package : torch.python->packages) {
    if (!knowledge::is_torch_companion(package.name)) continue;
    const bool is_xformers = package.name == "xformers";
    names += " " + (is_xformers ? package.name : companion_requirement(package, own, torch.build));
    // In PyTorch's own index pip finds what goes with it; of xFormers it would take the newest.
    const auto row = std::ranges::find(fitting, package.name, &knowledge::TorchCompanion::package);
    if (is_xformers && row != fitting.end()) names += fmt::format("=={}", (*row)->version);
  }
  return names;
}

/// What somebody else built takes what he gave it.
bool is_released(std::string_view version) {
  return !version.contains("dev") && !version.contains("a0") && !version.contains("git") && !version.contains(".nv");
}

void triton_differs(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto* const package = facts::find_package(*torch.python, "triton");
    const auto triton = package == nullptr ? std::nullopt : Version::parse(package->version);
    // Wheels for the CPU pin no Triton, those for other makers' GPUs one of their own (pytorch-triton-rocm).
    const bool cuda = torch.build.empty() || torch.build.starts_with("cu");
    if (!cuda || !own || !triton || !is_released(torch.version) || !is_released(package->version)) continue;
    const auto* const pin = knowledge::triton_for(*own);
    if (pin == nullptr || knowledge::goes_with(*pin, *triton)) continue;
    report.say(fmt::format("Triton {}{} is not of the release that PyTorch {} takes: {}", package->version,
                           where(*torch.python), torch.version, pin->triton),
               {triton_for(*torch.python, *pin)});
  }
}

std::vector<std::string> listed(std::string_view words) {
  std::vector<std::string> result;
  for (const std::string_view word : split_words(words)) result.emplace_back(word);
  return result;
}

void bitsandbytes_cuda(const Subject& subject, Report& report) {
  // Another library is asked for by hand.
  if (facts::find_variable(subject.environment, "BNB_CUDA_VERSION") != nullptr) return;
  for (const Torch& torch : torches(subject)) {
    const auto own = package_version(*torch.python, "bitsandbytes");
    const auto* const build = own ? knowledge::bitsandbytes_build(*own) : nullptr;
    if (build == nullptr || !torch.cuda || knowledge::has_code_for(*build, *torch.cuda)) continue;
    const auto* const better =
        knowledge::bitsandbytes_for(Version::parse(torch.version).value_or(Version{}), *torch.cuda);
    std::vector<std::string> steps;
    if (better != nullptr && better->last == Version{})
      steps.push_back(pip_install(*torch.python, "bitsandbytes>=" + to_string(better->first)));
    else if (better != nullptr)
      steps.push_back(pip_install(*torch.python, "bitsandbytes==" + to_string(better->last)));
    steps.emplace_back("[@nvidia] or a PyTorch for a CUDA that it has: " + join(listed(build->cuda), ", "));
    report.say(
        fmt::format("bitsandbytes {}{} has no library for CUDA {}, with which PyTorch {} was built", to_string(*own),
                    where(*torch.python), to_string(knowledge::release_of(*torch.cuda)), torch.version),
        std::move(steps));
  }
}

/// The failing import says it, whatever the versions are.
void companion_fails(const Subject& subject, Report& report) {
  const auto* const message = told_of(subject, "torchvision_operator");
  if (message == nullptr) return;
  // Whoever prints it has torchvision, though no list of packages tells of it.
  const auto& pythons = subject.environment.pythons;
  PythonEnvironment python = pythons.empty() ? PythonEnvironment{} : pythons.front();
  for (const char* companion : {"torchvision", "torchaudio"}) {
    if (facts::find_package(python, companion) == nullptr) python.packages.push_back({companion, "", ""});
  }
  std::vector<std::string> steps = torch_steps(subject, report, python);
  if (!is_command(steps.front()))
    steps.insert(steps.begin(),
                 fmt::format("install torch, torchvision and torchaudio in one go, from one index: {}", kGetStarted));
  report.say(
      Severity::error,
      fmt::format("torchvision was built for another PyTorch than the one that is installed{}", at_line(*message)),
      std::move(steps));
}

/// xFormers names both: "PyTorch 2.6.0+cu124 with CUDA 1204 (you have 2.8.0+cu128)". Its kernels are then left out.
void xformers_differs(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "xformers_other_build")) {
    constexpr std::string_view kName = "PyTorch ";
    const std::string_view text = std::string_view(message->text).substr(0, message->text.find(" with CUDA "));
    const std::size_t at = text.rfind(kName);
    const std::string_view made = at == std::string_view::npos ? "" : text.substr(at + kName.size());
    // Of another Python alone both are the same.
    if (made.empty() || made == message->value) continue;
    report.say(fmt::format("xFormers was built for PyTorch {}, this is {}{}: its kernels are not used", made,
                           message->value, at_line(*message)),
               xformers_for({}, message->value));
    return;
  }
}

void companions_differ(const Subject& subject, Report& report) {
  bool named = false;
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    // A nightly's companions have the numbers of the release before, until theirs are counted up.
    if (!own || torch.version.contains("dev")) continue;
    std::vector<std::string> wrong = of_other_releases(torch, *own);
    if (wrong.empty()) wrong = of_other_builds(torch);
    if (wrong.empty()) continue;
    // A nightly, or a build of somebody else, is on no index that is known here.
    const bool released = subject.knowledge.torch(*own, torch.build) != nullptr && !torch.build.empty();
    const std::string companions = companions_for(torch, *own);
    report.say(fmt::format("PyTorch {}{} does not go with {}", torch.version, where(*torch.python), join(wrong, ", ")),
               {released ? pip_install_torch(*torch.python, torch.version, torch.build) + companions
                         : fmt::format("install{} of the same source and day as this PyTorch", companions)});
    named = true;
  }
  if (named) return;
  companion_fails(subject, report);
  xformers_differs(subject, report);
}

void python_not_served(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto python = Version::parse(torch.python->version.value_or(""));
    const auto* row = own ? subject.knowledge.torch(*own, torch.build, wheel_machine(subject)) : nullptr;
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
               {pip_uninstall(python, eleven)});
  }
}

void onnxruntime_twice(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    const auto* cpu = facts::find_package(python, "onnxruntime");
    const auto* gpu = facts::find_package(python, "onnxruntime-gpu");
    if (cpu == nullptr || gpu == nullptr) continue;
    report.say(
        fmt::format("onnxruntime and onnxruntime-gpu are both installed{}: the CPU one hides the other", where(python)),
        {pip_uninstall(python, {"onnxruntime", "onnxruntime-gpu"}), pip_install(python, "onnxruntime-gpu")});
  }
}

void jax_without_cuda(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).empty()) return;
  for (const auto& python : subject.environment.pythons) {
    const auto jaxlib = package_version(python, "jaxlib");
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

constexpr auto kFrameworkChecks = std::to_array<Check>({
    {"torch-needs-newer-driver", Area::frameworks, Severity::error, "PyTorch's CUDA against the driver",
     "CUDA programs need a driver of their major release at least (cudaErrorInsufficientDriver).",
     "CUDA compatibility guide, minor-version compatibility; PyTorch RELEASE.md", kGetStarted, driver_too_old,
     "torch-too-old-for-gpu torch-dropped-gpu torch-for-other-maker"},
    {"torch-by-minor-version", Area::frameworks, Severity::info, "PyTorch's CUDA against the driver's own",
     "The driver loads compiled code of its whole major release, but no PTX that is newer than itself (error 222).",
     "CUDA compatibility guide, minor-version compatibility", "https://docs.nvidia.com/deploy/cuda-compatibility/",
     by_minor_version, "toolkit-by-minor-version"},
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
     "NumPy 2.0 migration guide; PyTorch 2.3 release notes", "", numpy_two, kBringsOtherTorch},
    {"torch-companions-differ", Area::frameworks, Severity::warning,
     "torchvision, torchaudio and xformers against PyTorch",
     "They are built for one PyTorch release: operators such as torchvision::nms are missing otherwise.",
     "PyTorch, previous versions; PyPI, Requires-Dist (torch_companions table)",
     "https://pytorch.org/get-started/previous-versions/", companions_differ, kBringsOtherTorch},
    {"triton-differs-from-torch", Area::frameworks, Severity::warning, "Triton's release against PyTorch's",
     "torch.compile reaches into Triton's compiler: of another release it misses names (\"cannot import name "
     "'AttrsDescriptor'\"), or compiles wrong code.",
     "PyPI, Requires-Dist of torch (torch_triton table)", "https://pypi.org/project/torch/", triton_differs,
     "torch-too-old-for-gpu torch-dropped-gpu torch-for-other-maker vllm-torch-differs vllm-cuda-differs "
     "vllm-without-blackwell-kernels triton-too-old-for-gpu"},
    {"bitsandbytes-without-cuda", Area::frameworks, Severity::warning, "bitsandbytes' libraries against PyTorch's CUDA",
     "It then loads the CPU's library, or none: 8-bit and 4-bit weights and its optimizers fail.",
     "PyPI, wheels of bitsandbytes (bitsandbytes_cuda table)",
     "https://huggingface.co/docs/bitsandbytes/main/en/installation", bitsandbytes_cuda, kBringsOtherTorch},
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
});

}  // namespace

std::span<const Check> framework_checks() { return kFrameworkChecks; }

}  // namespace gpuwarden::doctor
