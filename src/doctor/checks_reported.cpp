// SPDX-License-Identifier: Apache-2.0
// Error messages that a report quotes: the software has already said what is wrong; here is what to do.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "doctor/software_plan.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::ReportedMessage;

/// Who mends error 802: the fabric manager must run, and be of the driver's exact version; a restart alone does not
/// help where it is of another.
std::vector<std::string> fabric_steps(const Subject& subject) {
  std::vector<std::string> steps{"sudo journalctl -u nvidia-fabricmanager -n 50   # does it run, and of which version"};
  if (is_container(subject)) steps.emplace_back("it runs on the host, not in the container");
  for (std::string& step : install_fabric_manager(subject.environment, subject.snapshot.driver_version.value_or("")))
    steps.push_back(std::move(step));
  steps.emplace_back("nvidia-smi -q | grep -A 3 Fabric   # State must become Completed");
  if (std::string more = send_also(subject); !more.empty()) steps.push_back(std::move(more));
  return steps;
}

/// The toolkit of the CUDA that PyTorch was built with.
std::string framework_toolkit(const Subject& subject) {
  for (const Torch& torch : torches(subject)) {
    if (torch.cuda)
      return toolkit_step(subject, *torch.cuda,
                          fmt::format("gpuwarden env use {}", to_string(knowledge::release_of(*torch.cuda))));
  }
  return here_or_elsewhere(subject, "gpuwarden env use VERSION   # the one of torch.version.cuda",
                           "[@nvidia] send also: python -c 'import torch; print(torch.version.cuda)'");
}

/// The first toolkit whose nvcc knows "89".
std::string first_toolkit_for(const Subject& subject, const std::string& number) {
  const std::string here = fmt::format("gpuwarden env use --for sm_{}", number);
  const auto architecture = parse_integer(number);
  const auto range = architecture ? subject.knowledge.toolkits_for(static_cast<int>(*architecture)) : std::nullopt;
  return range && range->first ? toolkit_step(subject, range->first, here)
                               : here_or_elsewhere(subject, here, "install a newer CUDA toolkit");
}

/// Who prints it is known to be PyTorch, or has to be asked: other programs are built for GPUs as well.
std::vector<std::string> steps_for_missing_kernel(const Subject& subject) {
  const auto gpus = nvidia_gpus(subject);
  const auto architecture = gpus.empty() ? std::nullopt : architecture_of(subject, gpus[0]->gpu);
  std::vector<std::string> steps{
      "python -c 'import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'"};
  std::ranges::move(fitting_torch(subject), std::back_inserter(steps));
  const bool is_torch = !torches(subject).empty() || !of_kind(subject, "arch_not_supported").empty();
  if (!is_torch && architecture)
    steps.insert(steps.begin(),
                 fmt::format("take a build of the program for compute capability {}.{}, or build it so: "
                             "-DCMAKE_CUDA_ARCHITECTURES={} (llama.cpp and others); where PyTorch says it:",
                             *architecture / 10, *architecture % 10, *architecture));
  return steps;
}

/// The name of an AMD GPU's code: "gfx1031"; empty where none is told.
std::string gfx_of(const Subject& subject) {
  for (const auto& record : subject.snapshot.gpus) {
    const std::string name = record.gpu.architecture.value_or("");
    if (record.gpu.vendor == "AMD" && name.starts_with("gfx")) return name;
  }
  return {};
}

/// source: LLVM, User Guide for AMDGPU Backend, gfx10-3-generic and gfx11-generic: what runs one another's code; so do
/// reports (ROCm/rocALUTION#197: gfx1031; pytorch/pytorch#164346: gfx1151)
std::string_view relative_of(std::string_view gfx) {
  if (gfx.starts_with("gfx103") && gfx != "gfx1030") return "10.3.0";
  const bool third = gfx.starts_with("gfx110") || gfx == "gfx1150" || gfx == "gfx1151";
  return third && gfx != "gfx1100" ? "11.0.0" : "";
}

std::vector<std::string> steps_for_missing_hip_kernel(const Subject& subject) {
  const std::string gfx = gfx_of(subject);
  const std::string_view relative = relative_of(gfx);
  std::vector<std::string> steps{
      fmt::format("python -c 'import torch; print(torch.version.hip, torch.cuda.get_arch_list())'   # is {} there?",
                  gfx.empty() ? "the name that rocminfo shows" : gfx)};
  if (gfx.empty()) {
    steps.emplace_back("[@linux_nvidia] rocminfo | grep gfx");
    steps.emplace_back(
        "[@nvidia] a Radeon that is not there: HSA_OVERRIDE_GFX_VERSION=10.3.0 (RDNA 2, gfx1031 to gfx1036) or 11.0.0 "
        "(RDNA 3, "
        "gfx1101 to gfx1103, gfx1150, gfx1151) before the program takes the code of a relative");
  } else if (!relative.empty()) {
    steps.push_back(
        fmt::format("export HSA_OVERRIDE_GFX_VERSION={}   # takes the code of a relative that is there", relative));
  }
  steps.emplace_back(
      "[@nvidia] take PyTorch of a newer ROCm, which may know the GPU: https://pytorch.org/get-started/locally/, or "
      "AMD's own "
      "builds: https://rocm.docs.amd.com/projects/radeon/en/latest/");
  steps.push_back(fmt::format("only where you build it yourself: PYTORCH_ROCM_ARCH={} for the build",
                              gfx.empty() ? "the GPU's gfx name" : gfx));
  return steps;
}

void no_kernel(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "no_kernel_image"))
    report.say(fmt::format("a kernel was not compiled for this GPU{}", at_line(*message)),
               steps_for_missing_kernel(subject));
  for (const auto* message : of_kind(subject, "hip_no_kernel"))
    report.say(fmt::format("a kernel was not compiled for this AMD GPU{}", at_line(*message)),
               steps_for_missing_hip_kernel(subject));
}

/// 70 of "sm_70" and of "7.0".
int architecture_in(std::string_view value) {
  const auto version = knowledge::Version::parse(value.starts_with("sm_") ? value.substr(3) : value);
  if (!version) return 0;
  return value.contains('.') ? version->major * 10 + version->minor : version->major;
}

void arch_message(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "arch_not_supported")) {
    const int architecture = architecture_in(message->value);
    std::vector<std::string> steps = fitting_torch(subject);
    if (nvidia_gpus(subject).empty() && architecture > 0) {
      const auto* wheel =
          knowledge::newest_torch_for(subject.knowledge, {architecture}, driver_of(subject), wheel_machine(subject));
      if (wheel != nullptr) steps = {wheel_command(subject, *wheel) + (driver_of(subject) ? "" : needs_driver(*wheel))};
    }
    const bool capability = message->value.contains('.');
    report.say(fmt::format("PyTorch says that it has no code for {}{}{}", capability ? "compute capability " : "",
                           message->value.empty() ? "this GPU" : message->value, at_line(*message)),
               std::move(steps));
  }
}

void driver_message(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "driver_too_old")) {
    std::string cuda = message->value;
    if (cuda.size() == 5)
      cuda = fmt::format("{}.{}", cuda.substr(0, 2), cuda.substr(2, 2) == "00" ? "0" : cuda.substr(3, 1));
    const auto offered = knowledge::Version::parse(cuda);
    report.say(fmt::format("PyTorch says that the driver is too old: it offers CUDA {}{}", cuda, at_line(*message)),
               steps_for_older_driver(subject, report, offered));
  }
  for (const auto* message : of_kind(subject, "no_driver"))
    report.say(fmt::format("PyTorch finds no NVIDIA driver{}", at_line(*message)),
               {"[@nvidia] in a container: start it with --gpus all",
                here_or_elsewhere(subject, "[@linux_nvidia] else: gpuwarden driver status",
                                  "[@linux_nvidia] else: nvidia-smi; sudo dmesg | grep -i nvrm")});
}

constexpr std::string_view kNewerDriver = "a newer driver";
constexpr std::string_view kFabric = "802";

struct CudaError {
  std::string_view number;
  std::string_view meaning;
  std::string_view fix;
};

/// source: cuda_runtime_api.h, cudaError
constexpr auto kCudaErrors = std::to_array<CudaError>({
    {"34", "the toolkit's stub was loaded instead of the driver's libcuda",
     "[@linux] remove stubs folders from LD_LIBRARY_PATH"},
    {"35", "the driver is older than the program's CUDA", kNewerDriver},
    {"46", "all GPUs are busy or unavailable (exclusive compute mode?)", "nvidia-smi -q -d COMPUTE"},
    {"100", "no GPU is visible to this process",
     "[@nvidia] check CUDA_VISIBLE_DEVICES, the container and Slurm's grant"},
    {"101", "CUDA_VISIBLE_DEVICES names a GPU that does not exist", "nvidia-smi -L; unset CUDA_VISIBLE_DEVICES"},
    {kFabric,
     "the NVSwitch fabric is not ready (the fabric manager is missing, not running, or not of the driver's exact "
     "version)",
     ""},
    {"803", "libcuda does not fit the kernel module, usually a stale cuda-compat",
     "[@linux_nvidia] take cuda-compat off the loader's path: /compat in LD_LIBRARY_PATH, cuda-compat.conf in "
     "/etc/ld.so.conf.d "
     "(vLLM's "
     "images from 0.15 on); then run ldconfig"},
    {"804", "cuda-compat was loaded on a GPU that it does not serve",
     "[@linux_nvidia] remove /compat folders from LD_LIBRARY_PATH"},
    {"999", "the driver gave no reason; after a suspend it is usually nvidia_uvm",
     "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"},
});

void cuda_errors(const Subject& subject, Report& report) {
  const bool fabric_is_told = !of_kind(subject, "fabric_version_differs").empty();
  for (const auto* message : of_kind(subject, "cuda_error")) {
    // The fabric manager's own words say why, and a restart would not help.
    if (message->value == kFabric && fabric_is_told) continue;
    const auto* const known = std::ranges::find(kCudaErrors, message->value, &CudaError::number);
    if (known == kCudaErrors.end())
      report.say(
          fmt::format("CUDA does not start: error {}{}", message->value, at_line(*message)),
          {fmt::format("[@nvidia] look up CUDA error {} in the CUDA driver API's list, CUresult", message->value)});
    else
      report.say(fmt::format("CUDA does not start, error {}: {}{}", message->value, known->meaning, at_line(*message)),
                 known->number == kFabric     ? fabric_steps(subject)
                 : known->fix == kNewerDriver ? steps_for_older_driver(subject, report, driver_cuda(subject))
                                              : std::vector<std::string>{std::string(known->fix)});
  }
  for (const auto* message : of_kind(subject, "cuda_unknown_error"))
    report.say(fmt::format("CUDA does not start: unknown error{}", at_line(*message)),
               {"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm", "ls -l /dev/nvidia-uvm", "sudo reboot"});
}

void cpu_only(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "no_cuda_build"))
    report.say(fmt::format("a program wants CUDA from a PyTorch that was built without{}", at_line(*message)),
               fitting_torch(subject));
}

/// Somebody asked torch.cuda.is_available(), and it is False.
void asked_in_vain(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "cuda_not_available")) {
    const auto all = torches(subject);
    const Torch torch = all.empty() ? Torch{} : all[0];
    const std::string version = all.empty() ? "" : " " + torch.version;
    const bool rocm = torch.build.starts_with("rocm") || (torch.python != nullptr && torch.python->torch_rocm);
    const bool without = torch.build == "cpu" || (torch.python != nullptr && torch.python->torch_cuda == "");
    if (torch.build == "xpu") continue;  // it has no CUDA to be there
    if (!rocm && without)
      report.say(fmt::format("PyTorch{} was built without CUDA: torch.cuda.is_available() is False{}", version,
                             at_line(*message)),
                 fitting_torch(subject));
    else
      report.say(fmt::format("PyTorch{} sees no GPU: torch.cuda.is_available() is False{}", version, at_line(*message)),
                 rocm ? std::vector<std::string>{"[@linux_nvidia] rocminfo | grep gfx   # does ROCm see the GPU?",
                                                 "id -nG   # this user must be in the groups render and video"}
                      : std::vector<std::string>{
                            "python -c 'import torch; torch.cuda.init()'   # says why",
                            "nvidia-smi   # does the driver run, and is it new enough for that PyTorch?"});
  }
}

/// TensorFlow and JAX were asked for their GPUs, and have none. Sources: tensorflow.org/install/pip (native Windows has
/// no GPU since 2.11); docs.jax.dev, installation.
void frameworks_without_gpu(const Subject& subject, Report& report) {
  const auto version_of = [&](std::string_view package) {
    for (const facts::PythonEnvironment& python : subject.environment.pythons) {
      if (const auto* found = facts::find_package(python, package)) return found->version;
    }
    return std::string();
  };
  for (const auto* message : of_kind(subject, "tensorflow_sees_no_gpu")) {
    const std::string version = version_of("tensorflow");
    const auto parsed = knowledge::Version::parse(version);
    const auto platform = platform_of(subject);
    // A version that nobody told is likelier one of the last years.
    const bool left =
        platform == knowledge::Platform::windows && (!parsed || *parsed >= *knowledge::Version::parse("2.11"));
    std::vector<std::string> steps{
        fmt::format("pip install 'tensorflow[and-cuda]{}'", version.empty() ? "" : "==" + version),
        "nvidia-smi   # does the driver run?"};
    if (left) steps = {"wsl --install   # in PowerShell; there, in Linux:", "pip install 'tensorflow[and-cuda]'"};
    if (platform == knowledge::Platform::macos)
      steps = {
          "pip install tensorflow-metal   # Apple's plugin, and the TensorFlow that it asks for: "
          "https://developer.apple.com/metal/tensorflow-plugin/"};
    report.say(
        fmt::format("TensorFlow {}{}{}", version.empty() ? "" : version + " ",
                    left ? "has no GPU support on Windows itself (since 2.11)" : "sees no GPU", at_line(*message)),
        std::move(steps));
  }
  for (const auto* message : of_kind(subject, "jax_sees_no_gpu"))
    report.say(fmt::format("JAX sees no GPU: its only device is the CPU{}", at_line(*message)),
               {"pip install -U 'jax[cuda12]'   # cuda13 with a driver of branch 580 or newer",
                "nvidia-smi   # does the driver run?"});
}

/// ollama lists the CPU alone, though there is a GPU.
void ollama_on_cpu(const Subject& subject, Report& report) {
  const auto gpus = nvidia_gpus(subject);
  for (const auto* message : of_kind(subject, "ollama_on_cpu")) {
    if (gpus.empty()) continue;
    report.say(
        fmt::format("ollama found no GPU that it can use, though {} is there{}", gpus[0]->gpu.name, at_line(*message)),
        {"[@linux_nvidia] sudo systemctl restart ollama   # after the driver was installed or has come back from sleep",
         "sudo journalctl -u ollama | grep -i -E 'cuda|gpu|librar'   # why it left the GPU out",
         "[@nvidia] in a container: start it with --gpus all"});
  }
}

void old_libc(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "glibc_missing"))
    report.say(fmt::format("a library needs glibc {}; this system has {}{}", message->value,
                           subject.environment.host.libc.value_or("an older one"), at_line(*message)),
               {"use a newer distribution or a container, or a build for the older glibc (manylinux2014)"});
}

/// source: libstdc++ manual, ABI policy and guidelines, "GLIBCXX_3.4.N"
struct StandardLibrary {
  int number;  ///< of GLIBCXX_3.4.N
  std::string_view gcc;
};
constexpr auto kStandardLibraries = std::to_array<StandardLibrary>(
    {{28, "9.3"}, {29, "11"}, {30, "12"}, {31, "13.1"}, {32, "13.2"}, {33, "14"}, {34, "15"}});

void old_standard_library(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "glibcxx_missing")) {
    const auto version = knowledge::Version::parse(message->value);
    const auto* const known =
        std::ranges::find(kStandardLibraries, version ? version->patch : 0, &StandardLibrary::number);
    const std::string gcc = known == kStandardLibraries.end() ? "" : fmt::format(" of GCC {}", known->gcc);
    const std::string newer =
        known == kStandardLibraries.end() ? "libstdcxx-ng" : fmt::format("'libstdcxx-ng>={}'", known->gcc);
    std::vector<std::string> steps{
        fmt::format("conda install -c conda-forge {}   # in a conda environment", newer),
        "export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH   # where the system's older one is found first"};
    steps.push_back(fmt::format("else a container or a release of the distribution with the libstdc++{}", gcc));
    report.say(fmt::format("a program needs the C++ library{} (GLIBCXX_{}); the one that is loaded is older{}", gcc,
                           message->value, at_line(*message)),
               std::move(steps));
  }
}

/// "13" of "libcudart.so.13"; nothing where the number is not a CUDA release's.
std::string cuda_of_library(std::string_view library) {
  constexpr auto kNumberedByCuda =
      std::to_array<std::string_view>({"libcudart.so.", "libcublas.so.", "libcublasLt.so."});
  for (const std::string_view one : kNumberedByCuda) {
    const auto version =
        library.starts_with(one) ? knowledge::Version::parse(library.substr(one.size())) : std::nullopt;
    if (version) return fmt::format("{}", version->major);
  }
  return {};
}

/// What brings it: for a CUDA release a toolkit's runtime, or the framework's build for another one.
std::vector<std::string> steps_for_library(const Subject& subject, std::string_view library) {
  const std::string look = here_or_elsewhere(subject, "gpuwarden env list   # is there a toolkit with it?",
                                             "pip list | grep -E 'nvidia|torch'   # which CUDA is there?");
  const std::string release = cuda_of_library(library);
  if (release.empty())
    return {"the number behind .so names the release: install the framework's build for the one that is there", look};
  std::vector<std::string> steps{look};
  for (const Torch& torch : torches(subject)) {
    if (torch.cuda && std::to_string(torch.cuda->major) != release)
      steps.push_back(
          fmt::format("[@nvidia] what asks for it is built for CUDA {}, PyTorch {} for CUDA {}: install its build for "
                      "CUDA {}, or the PyTorch that it names",
                      release, torch.version, to_string(*torch.cuda), torch.cuda->major));
  }
  if (steps.size() == 1)
    steps.push_back(
        fmt::format("install what asks for it and PyTorch for the same CUDA: both for CUDA {}, or both for "
                    "the one that is there",
                    release));
  return steps;
}

/// The driver brings it, no toolkit and no package: what is to be done says the cause that the diagnosis finds in the
/// same line (libcuda_missing).
bool is_of_driver(std::string_view library) {
  return library.starts_with("libcuda.so") || library.starts_with("libnvidia-ml.so") ||
         library.starts_with("libnvidia-ptxjitcompiler.so");
}

/// An import that fails ends the program; a warning of dlopen, or of a program that goes on without, does not. The
/// exception's own line begins with it, after what loggers and launchers put before each line: "[rank0]: ".
bool ends_program(std::string_view line) {
  if (line.contains("error while loading shared libraries")) return true;
  for (const std::string_view exception : {"ImportError: ", "OSError: "}) {
    const std::size_t at = line.find(exception);
    if (at == std::string_view::npos) continue;
    const std::string_view before = trim(line.substr(0, at));
    if (before.empty() || before.ends_with(']') || before.ends_with("]:") || before.ends_with(')')) return true;
  }
  return false;
}

void library_missing(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "library_missing")) {
    const bool cuda = message->value.starts_with("libcu") || message->value.starts_with("libnv") ||
                      message->value.starts_with("libnccl");
    if (!cuda || is_of_driver(message->value)) continue;
    const std::string release = cuda_of_library(message->value);
    report.say(ends_program(message->text) ? Severity::error : Severity::warning,
               fmt::format("{} is not found{}{}", message->value,
                           release.empty() ? "" : fmt::format(": it is CUDA {}'s", release), at_line(*message)),
               steps_for_library(subject, message->value));
  }
}

void build_messages(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "cuda_mismatch"))
    report.say(fmt::format("an extension was not built: the toolkit is CUDA {}, PyTorch's is another{}", message->value,
                           at_line(*message)),
               {framework_toolkit(subject)});
  for (const auto* message : of_kind(subject, "nvcc_arch_unknown"))
    report.say(
        fmt::format("nvcc does not know compute_{}{}", message->value, at_line(*message)),
        {first_toolkit_for(subject, message->value), "export TORCH_CUDA_ARCH_LIST=8.6   # 8.6 code runs on 8.9 too"});
  for (const auto* message : of_kind(subject, "unsupported_host_compiler"))
    report.say(fmt::format("nvcc refuses the host compiler{}", at_line(*message)), {"export NVCC_CCBIN=g++-12"});
  for (const auto* message : of_kind(subject, "host_compiler_missing"))
    report.say(fmt::format("Triton finds no C compiler{}", at_line(*message)),
               {install_command(subject.environment, {"gcc", "gcc", "gcc", "gcc", "gcc"})});
  for (const auto* message : of_kind(subject, "header_missing")) {
    if (!message->value.ends_with(".h")) continue;
    const bool python = message->value == "Python.h";
    report.say(fmt::format("a compiler does not find {}{}", message->value, at_line(*message)),
               {python ? install_command(subject.environment,
                                         {"python3-dev", "python3-dev", "python3-devel", "python3-devel", "python"})
                       : install_command(subject.environment, {"build-essential", "build-essential", "gcc glibc-devel",
                                                               "gcc glibc-devel", "base-devel"})});
  }
}

void ptx(const Subject& subject, Report& report) {
  const auto own = driver_branch(subject);
  for (const auto* message : of_kind(subject, "ptx_unsupported"))
    report.say(fmt::format("the driver cannot compile this program's PTX: the toolkit was newer{}", at_line(*message)),
               {plan_driver(subject, report, {.at_least = own ? *own + 1 : 0}).front(),
                "[@nvidia] or a build with code for this GPU, or cuda-compat on a data-centre GPU"});
}

void capability(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "capability_needed"))
    report.say(fmt::format("an operator needs a newer GPU; this one has compute capability {}{}", message->value,
                           at_line(*message)),
               {"run in float16 instead of bfloat16, or without that attention"});
}

void mig_uuid(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "mig_uuid_as_number"))
    report.say(
        fmt::format("a program reads CUDA_VISIBLE_DEVICES as a number and finds a MIG UUID{}", at_line(*message)),
        {"pip install --upgrade vllm", "export CUDA_VISIBLE_DEVICES=0   # where only one instance is visible"});
}

constexpr auto kReportedChecks = std::to_array<Check>({
    {"reported-no-kernel", Area::frameworks, Severity::error, "\"no kernel image is available\"",
     "The binary has neither code for this GPU nor PTX that its driver can compile.", "CUDA error 209",
     "https://docs.nvidia.com/cuda/ampere-compatibility-guide/", no_kernel,
     "torch-too-old-for-gpu torch-dropped-gpu vllm-gpu-too-old vllm-without-blackwell-kernels "
     "vllm-without-kernels-for-amd-gpu"},
    {"reported-gpu-not-served", Area::frameworks, Severity::error, "PyTorch's warning about the GPU",
     "Kernels will fail on that GPU.", "pytorch/pytorch#150733", "https://pytorch.org/get-started/locally/",
     arch_message, "torch-too-old-for-gpu torch-dropped-gpu"},
    {"reported-driver-too-old", Area::driver, Severity::error, "PyTorch's word about the driver",
     "CUDA does not start.", "PyTorch, torch/cuda/__init__.py", "", driver_message, "torch-needs-newer-driver"},
    {"reported-cuda-error", Area::driver, Severity::error, "the error with which CUDA starts",
     "No program can use a GPU before it is fixed.", "cuda_runtime_api.h",
     "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html", cuda_errors,
     "libcuda-compat-unfit libcuda-stub-first driver-library-mismatch"},
    {"reported-cpu-build", Area::frameworks, Severity::error, "\"Torch not compiled with CUDA enabled\"",
     "That PyTorch was built for the CPU.", "PyTorch, torch/cuda/__init__.py", "", cpu_only, "torch-without-cuda"},
    {"reported-not-available", Area::frameworks, Severity::error, "\"torch.cuda.is_available()\" and \"False\"",
     "PyTorch falls back to the CPU or stops.", "PyTorch documentation, torch.cuda",
     "https://pytorch.org/docs/stable/generated/torch.cuda.is_available.html", asked_in_vain,
     "torch-without-cuda torch-cuda-unavailable torch-needs-newer-driver reported-cpu-build reported-driver-too-old "
     "reported-cuda-error driver-library-mismatch driver-missing driver-not-loaded driver-in-trouble"},
    {"reported-framework-without-gpu", Area::frameworks, Severity::error, "TensorFlow's and JAX's lists of devices",
     "They compute on the CPU.", "TensorFlow, Install with pip; JAX documentation, installation",
     "https://www.tensorflow.org/install/pip", frameworks_without_gpu,
     "driver-library-mismatch driver-missing driver-not-loaded driver-in-trouble jax-without-cuda"},
    {"reported-ollama-on-cpu", Area::frameworks, Severity::error, "the devices that ollama lists",
     "Models run on the CPU, many times slower.", "ollama, discover/types.go", "https://docs.ollama.com/gpu",
     ollama_on_cpu, "driver-library-mismatch driver-missing driver-not-loaded driver-in-trouble"},
    {"reported-glibc-too-old", Area::system, Severity::error, "\"version `GLIBC_...' not found\"",
     "The binary was built on a newer system.", "ld.so(8)", "", old_libc},
    {"reported-libstdcxx-too-old", Area::libraries, Severity::error, "\"version `GLIBCXX_...' not found\"",
     "The binary was built with a newer compiler than the library that is found first.",
     "libstdc++ manual, ABI policy and guidelines", "https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html",
     old_standard_library},
    {"reported-library-missing", Area::libraries, Severity::warning, "CUDA libraries that were not found",
     "The program was built for a CUDA release that is not installed.", "ld.so(8)", "", library_missing},
    {"reported-build-failure", Area::toolkit, Severity::error, "compilers' and nvcc's complaints",
     "Extensions and torch.compile need a compiler that fits.", "nvcc; PyTorch cpp_extension; Triton", "",
     build_messages, "toolkit-too-old-for-gpu host-compiler-too-new"},
    {"reported-ptx-too-new", Area::driver, Severity::error, "\"unsupported toolchain\"",
     "Under minor-version compatibility a driver does not compile PTX of newer toolkits.",
     "CUDA error 222; NVIDIA/nvbandwidth#61", "https://docs.nvidia.com/deploy/cuda-compatibility/", ptx},
    {"reported-capability-too-low", Area::frameworks, Severity::error, "operators that refuse the GPU",
     "The operator has no implementation for it.", "xFormers' dispatch messages", "", capability,
     "gpu-before-ampere-for-llm vllm-gpu-too-old"},
    {"reported-mig-uuid", Area::frameworks, Severity::error, "MIG UUIDs read as numbers",
     "The program does not know MIG.", "vllm-project/vllm#17047", "", mig_uuid, "vllm-reads-no-mig-uuids"},
});

}  // namespace

std::span<const Check> reported_checks() { return kReportedChecks; }

}  // namespace gpuwarden::doctor
