// SPDX-License-Identifier: Apache-2.0
// Error messages that a report quotes: the software has already said what is wrong; here is what to do.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::ReportedMessage;

std::vector<const ReportedMessage*> of_kind(const Subject& subject, std::string_view kind) {
  std::vector<const ReportedMessage*> result;
  for (const auto& message : subject.environment.messages) {
    if (message.kind == kind) result.push_back(&message);
  }
  return result;
}

std::string at_line(const ReportedMessage& message) {
  return message.line == 0 ? "" : fmt::format(" (line {})", message.line);
}

void no_kernel(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "no_kernel_image"))
    report.say(fmt::format("a kernel was not compiled for this GPU{}", at_line(*message)),
               {"python -c 'import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'",
                "gpuwarden compat   # which builds run on this GPU"});
  for (const auto* message : of_kind(subject, "hip_no_kernel"))
    report.say(fmt::format("a kernel was not compiled for this AMD GPU{}", at_line(*message)),
               {"build with PYTORCH_ROCM_ARCH set to this GPU's gfx name (rocminfo shows it)"});
}

void arch_message(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "arch_not_supported"))
    report.say(fmt::format("PyTorch says that it has no code for {}{}", message->value, at_line(*message)),
               {"gpuwarden compat   # which builds run on this GPU"});
}

void driver_message(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "driver_too_old")) {
    std::string cuda = message->value;
    if (cuda.size() == 5)
      cuda = fmt::format("{}.{}", cuda.substr(0, 2), cuda.substr(2, 2) == "00" ? "0" : cuda.substr(3, 1));
    report.say(fmt::format("PyTorch says that the driver is too old: it offers CUDA {}{}", cuda, at_line(*message)),
               {"gpuwarden driver recommend", "gpuwarden compat   # or a build of PyTorch for this driver"});
  }
  for (const auto* message : of_kind(subject, "no_driver"))
    report.say(fmt::format("PyTorch finds no NVIDIA driver{}", at_line(*message)),
               {"in a container: start it with --gpus all", "else: gpuwarden driver status"});
}

struct CudaError {
  std::string_view number;
  std::string_view meaning;
  std::string_view fix;
};

/// source: cuda_runtime_api.h, cudaError
constexpr auto kCudaErrors = std::to_array<CudaError>({
    {"34", "the toolkit's stub was loaded instead of the driver's libcuda",
     "remove stubs folders from LD_LIBRARY_PATH"},
    {"35", "the driver is older than the program's CUDA", "gpuwarden driver recommend"},
    {"46", "all GPUs are busy or unavailable (exclusive compute mode?)", "nvidia-smi -q -d COMPUTE"},
    {"100", "no GPU is visible to this process", "check CUDA_VISIBLE_DEVICES, the container and Slurm's grant"},
    {"101", "CUDA_VISIBLE_DEVICES names a GPU that does not exist", "nvidia-smi -L; unset CUDA_VISIBLE_DEVICES"},
    {"802", "the NVSwitch fabric is not ready", "sudo systemctl restart nvidia-fabricmanager"},
    {"803", "libcuda does not fit the kernel module, usually a stale cuda-compat",
     "take cuda-compat off the loader's path: /compat in LD_LIBRARY_PATH, cuda-compat.conf in /etc/ld.so.conf.d "
     "(vLLM's "
     "images from 0.15 on); then run ldconfig"},
    {"804", "cuda-compat was loaded on a GPU that it does not serve", "remove /compat folders from LD_LIBRARY_PATH"},
    {"999", "the driver gave no reason; after a suspend it is usually nvidia_uvm",
     "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"},
});

void cuda_errors(const Subject& subject, Report& report) {
  const bool fabric_is_told = !of_kind(subject, "fabric_version_differs").empty();
  for (const auto* message : of_kind(subject, "cuda_error")) {
    // The fabric manager's own words say why, and a restart would not help.
    if (message->value == "802" && fabric_is_told) continue;
    const auto* const known = std::ranges::find(kCudaErrors, message->value, &CudaError::number);
    if (known == kCudaErrors.end())
      report.say(fmt::format("CUDA does not start: error {}{}", message->value, at_line(*message)),
                 {fmt::format("look up CUDA error {} in the CUDA driver API's list, CUresult", message->value)});
    else
      report.say(fmt::format("CUDA does not start, error {}: {}{}", message->value, known->meaning, at_line(*message)),
                 {std::string(known->fix)});
  }
  for (const auto* message : of_kind(subject, "cuda_unknown_error"))
    report.say(fmt::format("CUDA does not start: unknown error{}", at_line(*message)),
               {"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm", "ls -l /dev/nvidia-uvm", "sudo reboot"});
}

void cpu_only(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "no_cuda_build"))
    report.say(fmt::format("a program wants CUDA from a PyTorch that was built without{}", at_line(*message)),
               {"gpuwarden compat   # shows the command for the build that fits"});
}

void old_libc(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "glibc_missing"))
    report.say(fmt::format("a library needs glibc {}; this system has {}{}", message->value,
                           subject.environment.host.libc.value_or("an older one"), at_line(*message)),
               {"use a newer distribution or a container, or a build for the older glibc (manylinux2014)"});
}

void library_missing(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "library_missing")) {
    const bool cuda = message->value.starts_with("libcu") || message->value.starts_with("libnv") ||
                      message->value.starts_with("libnccl");
    if (!cuda) continue;
    report.say(fmt::format("{} is not found{}", message->value, at_line(*message)),
               {"the number behind .so names the CUDA release: install the framework's build for the one that is there",
                "gpuwarden env list   # is there a toolkit with it?"});
  }
}

void build_messages(const Subject& subject, Report& report) {
  for (const auto* message : of_kind(subject, "cuda_mismatch"))
    report.say(fmt::format("an extension was not built: the toolkit is CUDA {}, PyTorch's is another{}", message->value,
                           at_line(*message)),
               {"gpuwarden env use VERSION   # the one of torch.version.cuda"});
  for (const auto* message : of_kind(subject, "nvcc_arch_unknown"))
    report.say(fmt::format("nvcc does not know compute_{}{}", message->value, at_line(*message)),
               {fmt::format("gpuwarden env use --for sm_{}", message->value),
                "export TORCH_CUDA_ARCH_LIST=8.6   # 8.6 code runs on 8.9 too"});
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
  for (const auto* message : of_kind(subject, "ptx_unsupported"))
    report.say(
        fmt::format("the driver cannot compile this program's PTX: the toolkit was newer{}", at_line(*message)),
        {"gpuwarden driver recommend", "or a build with code for this GPU, or cuda-compat on a data-centre GPU"});
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
    {"reported-glibc-too-old", Area::system, Severity::error, "\"version `GLIBC_...' not found\"",
     "The binary was built on a newer system.", "ld.so(8)", "", old_libc},
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
