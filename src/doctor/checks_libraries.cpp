// SPDX-License-Identifier: Apache-2.0
// The shared libraries that programs load: which libcuda, which cuDNN, which NCCL.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::Library;
using knowledge::Version;

constexpr std::string_view kCompatibility = "https://docs.nvidia.com/deploy/cuda-compatibility/";

/// The one that the loader takes: the first of its name.
const Library* first_of(const Subject& subject, std::string_view name) {
  const auto& all = subject.environment.libraries;
  const auto found = std::ranges::find(all, name, &Library::name);
  return found == all.end() ? nullptr : &*found;
}

void compat_unfit(const Subject& subject, Report& report) {
  const Library* cuda = first_of(subject, "libcuda.so.1");
  const auto driver = driver_of(subject);
  if (cuda == nullptr || cuda->origin != "compat") return;
  const auto gpus = nvidia_gpus(subject);
  const bool geforce = !gpus.empty() && std::ranges::any_of(gpus, [](const auto* gpu) { return is_geforce(gpu->gpu); });
  const auto version = Version::parse(cuda->version.value_or(""));
  const bool older = version && driver && *version < *driver;
  if (!geforce && !older) return;
  report.say(geforce
                 ? fmt::format("programs load cuda-compat's libcuda ({}), which does not work on GeForce (error 804)",
                               cuda->path)
                 : fmt::format("programs load cuda-compat's libcuda {}, which is older than the driver {} (error 803)",
                               *cuda->version, to_string(*driver)),
             {"export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr ':' '\\n' | grep -v /compat | paste -sd:)",
              "sudo rm -f /etc/ld.so.conf.d/00-compat-*.conf && sudo ldconfig   # if it is there"});
}

void stub_first(const Subject& subject, Report& report) {
  const Library* cuda = first_of(subject, "libcuda.so.1");
  if (cuda == nullptr || cuda->origin != "stubs") return;
  report.say(fmt::format("programs load the toolkit's stub instead of the driver's libcuda: {}", cuda->path),
             {"[@linux_nvidia] remove the folder stubs from LD_LIBRARY_PATH; it is for linking only"});
}

void wsl_shadowed(const Subject& subject, Report& report) {
  const Library* cuda = first_of(subject, "libcuda.so.1");
  if (!is_wsl(subject) || cuda == nullptr || cuda->origin == "wsl" || cuda->path.contains("/wsl/")) return;
  report.say(fmt::format("in WSL programs must load /usr/lib/wsl/lib/libcuda.so.1; they load {}", cuda->path),
             {"sudo apt remove --purge '^libcuda.*' '^nvidia-driver.*' '^libnvidia-compute.*'", "sudo ldconfig"});
}

void missing_cuda(const Subject& subject, Report& report) {
  const auto& all = subject.environment.libraries;
  const Library* nvml = first_of(subject, "libnvidia-ml.so.1");
  // Only where libraries were looked at: one half of the driver is there and the other is not.
  if (nvidia_gpus(subject).empty() || nvml == nullptr || nvml->origin == "reported" ||
      first_of(subject, "libcuda.so.1") != nullptr || all.empty())
    return;
  report.say("the driver's libcuda.so.1 is not installed (libnvidia-ml is): nvidia-smi works, CUDA does not",
             {install_command(subject.environment,
                              {"libcuda1", fmt::format("libnvidia-compute-{}", driver_branch(subject).value_or(580)),
                               "nvidia-driver-cuda-libs", "nvidia-compute-G06", "nvidia-utils"})});
}

void missing_nvml(const Subject& subject, Report& report) {
  const Library* cuda = first_of(subject, "libcuda.so.1");
  if (cuda == nullptr || cuda->origin == "reported" || cuda->origin == "stubs" || cuda->origin == "compat") return;
  if (nvidia_gpus(subject).empty() || first_of(subject, "libnvidia-ml.so.1") != nullptr) return;
  report.say(
      "the driver's libnvidia-ml.so.1 is not installed: no monitoring, and NCCL cannot see the topology",
      {install_command(subject.environment,
                       {"libnvidia-ml1", fmt::format("libnvidia-compute-{}", driver_branch(subject).value_or(580)),
                        "nvidia-driver-NVML", "nvidia-compute-G06", "nvidia-utils"})});
}

void several_drivers(const Subject& subject, Report& report) {
  std::vector<std::string> versions;
  for (const Library& library : subject.environment.libraries) {
    if (library.name != "libcuda.so.1" && library.name != "libnvidia-ml.so.1") continue;
    if (library.origin != "ldconfig" || !library.version) continue;
    if (std::ranges::find(versions, *library.version) == versions.end()) versions.push_back(*library.version);
  }
  if (versions.size() < 2) return;
  report.say(fmt::format("the libraries of several drivers are installed: {}", join(versions, ", ")),
             {"dpkg -l | grep -E 'nvidia|libcuda'   # or rpm -qa; remove the package of the wrong version",
              "sudo nvidia-uninstall   # if a .run installer left one of them"});
}

void loader_path_mixed(const Subject& subject, Report& report) {
  const auto* path = facts::find_variable(subject.environment, "LD_LIBRARY_PATH");
  if (path == nullptr) return;
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda || !torch.python->active) continue;
    for (const auto folder : split(*path, ':')) {
      const std::size_t at = folder.find("/cuda-");
      const auto version = at == std::string_view::npos ? std::nullopt : Version::parse(folder.substr(at + 6));
      if (!version || version->major == torch.cuda->major) continue;
      report.say(
          fmt::format("LD_LIBRARY_PATH has {}, PyTorch {} brings CUDA {}: the folder's libraries are loaded first",
                      folder, torch.version, to_string(knowledge::release_of(*torch.cuda))),
          {fmt::format("[@linux_nvidia] remove {} from LD_LIBRARY_PATH; PyTorch needs no toolkit to run", folder)});
      return;
    }
  }
}

void cudnn_differs(const Subject& subject, Report& report) {
  const auto* path = facts::find_variable(subject.environment, "LD_LIBRARY_PATH");
  for (const auto& python : subject.environment.pythons) {
    for (const auto& package : python.packages) {
      if (!package.name.starts_with("nvidia-cudnn-")) continue;
      const auto own = Version::parse(package.version);
      const Library* other = first_of(subject, "libcudnn");
      const auto version = other == nullptr ? std::nullopt : Version::parse(other->version.value_or(""));
      const bool first = other != nullptr && other->origin == "LD_LIBRARY_PATH";
      if (!own || !version || !first || path == nullptr) continue;
      if (knowledge::release_of(*own) == knowledge::release_of(*version)) continue;
      report.say(
          fmt::format("cuDNN {} from LD_LIBRARY_PATH is loaded before the {} that PyTorch brings{}",
                      to_string(*version), to_string(*own), where(python)),
          {fmt::format("[@linux] remove {} from LD_LIBRARY_PATH", other->path.substr(0, other->path.rfind('/')))});
      return;
    }
  }
}

void cudnn_of_two_majors(const Subject& subject, Report& report) {
  std::vector<int> majors;
  std::string paths;
  for (const Library& library : subject.environment.libraries) {
    const auto version = Version::parse(library.version.value_or(""));
    if (library.name != "libcudnn" || !version || std::ranges::find(majors, version->major) != majors.end()) continue;
    majors.push_back(version->major);
    paths += (paths.empty() ? "" : ", ") + library.path;
  }
  if (majors.size() < 2) return;
  report.say(fmt::format("two major releases of cuDNN are installed: {}", paths));
}

void nccl_twice(const Subject& subject, Report& report) {
  for (const auto& python : subject.environment.pythons) {
    // PyTorch brings the one of its own CUDA release.
    const std::string own = "nvidia-nccl-cu" + python.torch_cuda.value_or("").substr(0, 2);
    std::vector<std::string> found;
    std::vector<std::string> others;
    for (const auto& package : python.packages) {
      if (!package.name.starts_with("nvidia-nccl-cu")) continue;
      found.push_back(package.name + " " + package.version);
      if (package.name != own) others.push_back(package.name);
    }
    if (found.size() < 2) continue;
    const bool known = others.size() < found.size();
    report.say(
        fmt::format("NCCL is installed more than once{}: {}", where(python), join(found, ", ")),
        {known ? pip_uninstall(python, others) : "keep the one of PyTorch's CUDA release, uninstall the others"});
  }
}

void preloaded(const Subject& subject, Report& report) {
  const auto* preload = facts::find_variable(subject.environment, "LD_PRELOAD");
  if (preload == nullptr) return;
  const bool gpu = preload->contains("libcuda") || preload->contains("libnccl") || preload->contains("libcudart") ||
                   preload->contains("libnvidia");
  if (!gpu) return;
  report.say(fmt::format("LD_PRELOAD puts a GPU library into every program: {}", *preload), {"unset LD_PRELOAD"});
}

constexpr auto kLibraryChecks = std::to_array<Check>({
    {"libcuda-compat-unfit", Area::libraries, Severity::error, "cuda-compat's libcuda on the library path",
     "cuda-compat works on data-centre GPUs only, and must be newer than the driver.",
     "CUDA compatibility guide, forward compatibility; CUDA errors 803 and 804", kCompatibility, compat_unfit},
    {"libcuda-stub-first", Area::libraries, Severity::error, "the stub of libcuda on the library path",
     "The stub only satisfies the linker; every call in it fails (error 34).", "CUDA installation guide, stubs", "",
     stub_first},
    {"wsl-libcuda-shadowed", Area::libraries, Severity::error, "the libcuda that is loaded in WSL",
     "In WSL the driver lives on Windows; a Linux driver's libcuda cannot reach it.", "CUDA on WSL user guide",
     "https://docs.nvidia.com/cuda/wsl-user-guide/", wsl_shadowed},
    {"libcuda-missing", Area::libraries, Severity::error, "libcuda beside libnvidia-ml",
     "CUDA programs open libcuda.so.1 first of all.", "NVIDIA driver packages", "", missing_cuda},
    {"libnvml-missing", Area::libraries, Severity::warning, "libnvidia-ml beside libcuda",
     "Monitoring, NCCL and PyTorch's allocator ask it.", "NVIDIA driver packages", "", missing_nvml},
    {"driver-libraries-of-several-versions", Area::libraries, Severity::warning,
     "libcuda and libnvidia-ml against each other",
     "Which of them a program gets depends on the order of the library path.", "ldconfig(8)", "", several_drivers,
     "driver-library-mismatch"},
    {"library-path-of-another-cuda", Area::libraries, Severity::warning, "LD_LIBRARY_PATH against PyTorch's CUDA",
     "Libraries found there are taken before those that the wheel brings.", "ld.so(8)", "", loader_path_mixed},
    {"cudnn-shadowed", Area::libraries, Severity::warning, "cuDNN on the library path against PyTorch's",
     "\"cuDNN version incompatibility\" at the first convolution.", "PyTorch, torch.backends.cudnn", "", cudnn_differs},
    {"cudnn-of-two-releases", Area::libraries, Severity::info, "how many cuDNN there are",
     "Programs may load the one that they were not built for.", "cuDNN support matrix", "", cudnn_of_two_majors},
    {"nccl-twice", Area::libraries, Severity::warning, "how many NCCL a Python has",
     "Ranks with different NCCL cannot talk to each other.", "PyPI: nvidia-nccl-cu11, -cu12, -cu13", "", nccl_twice},
    {"gpu-library-preloaded", Area::libraries, Severity::warning, "LD_PRELOAD",
     "A preloaded library replaces the one that a framework was built for.", "ld.so(8)", "", preloaded},
});

}  // namespace

std::span<const Check> library_checks() { return kLibraryChecks; }

}  // namespace gpuwarden::doctor
