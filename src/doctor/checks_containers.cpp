// SPDX-License-Identifier: Apache-2.0
// Containers and WSL: whether the GPU reaches them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::Version;

constexpr std::string_view kToolkit =
    "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html";
constexpr std::string_view kWsl = "https://docs.nvidia.com/cuda/wsl-user-guide/";

bool has_engine(const Subject& subject, std::string_view name) {
  return std::ranges::any_of(subject.environment.containers.engines,
                             [&](const std::string& engine) { return engine.starts_with(name); });
}

bool is_driven(const Subject& subject) {
  return driver_of(subject) && !nvidia_gpus(subject).empty() && !is_container(subject);
}

/// Podman finds GPUs through CDI, which no runtime needs.
std::vector<std::string> generate_cdi() { return {"sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"}; }

void no_devices(const Subject& subject, Report& report) {
  const auto& nodes = subject.environment.device_nodes;
  if (!is_container(subject) || nodes.empty() || is_wsl(subject)) return;
  const bool any = std::ranges::any_of(nodes, &facts::DeviceNode::exists);
  if (any || !subject.environment.driver.loaded_version) return;
  report.say(fmt::format("this {} container has no NVIDIA device, though the host has driver {}",
                         *subject.environment.containers.inside, *subject.environment.driver.loaded_version),
             {*subject.environment.containers.inside == "kubernetes"
                  ? "[@nvidia] resources: {limits: {nvidia.com/gpu: 1}}   # in the pod's specification"
                  : "docker run --gpus all ..."});
}

void uvm_not_passed(const Subject& subject, Report& report) {
  if (!is_container(subject) || nvidia_gpus(subject).empty()) return;
  const auto& nodes = subject.environment.device_nodes;
  const auto exists = [&](std::string_view path) {
    const auto found = std::ranges::find(nodes, path, &facts::DeviceNode::path);
    return found != nodes.end() && found->exists;
  };
  const bool listed = std::ranges::find(nodes, "/dev/nvidia-uvm", &facts::DeviceNode::path) != nodes.end();
  if (!listed || !exists("/dev/nvidiactl") || exists("/dev/nvidia-uvm")) return;
  report.say("this container has /dev/nvidiactl but not /dev/nvidia-uvm: nvidia-smi works, CUDA does not",
             {"[@device_files] add --device /dev/nvidia-uvm --device /dev/nvidia-uvm-tools, or use --gpus all"});
}

void toolkit_missing(const Subject& subject, Report& report) {
  const auto& containers = subject.environment.containers;
  if (!is_driven(subject) || is_wsl(subject) || containers.engines.empty() || containers.toolkit_version) return;
  if (!has_engine(subject, "docker") && !has_engine(subject, "podman")) return;
  std::vector<std::string> steps = install_container_toolkit(subject.environment);
  for (std::string& step : has_engine(subject, "docker") ? configure_docker() : generate_cdi())
    steps.push_back(std::move(step));
  report.say(fmt::format("{} is installed, the NVIDIA Container Toolkit is not: containers cannot use the GPUs",
                         containers.engines[0]),
             std::move(steps));
}

void runtime_not_configured(const Subject& subject, Report& report) {
  const auto& containers = subject.environment.containers;
  if (!is_driven(subject) || !containers.toolkit_version || !has_engine(subject, "docker")) return;
  const bool configured = std::ranges::find(containers.runtimes, "nvidia") != containers.runtimes.end();
  if (configured || !containers.cdi_specifications.empty()) return;
  report.say("Docker does not know the runtime 'nvidia', and there is no CDI specification", configure_docker());
}

void cdi_missing(const Subject& subject, Report& report) {
  const auto& containers = subject.environment.containers;
  if (!is_driven(subject) || !containers.toolkit_version || !containers.cdi_specifications.empty()) return;
  if (!has_engine(subject, "podman") || has_engine(subject, "docker")) return;
  report.say("Podman finds GPUs through CDI, and there is no CDI specification", generate_cdi()).safe = true;
}

/// CVE-2025-23266 (container escape) is closed in 1.17.8 (source: NVIDIA security bulletin, July 2025; from memory).
constexpr Version kFirstSafeToolkit{1, 17, 8};

void toolkit_old(const Subject& subject, Report& report) {
  const auto& text = subject.environment.containers.toolkit_version;
  const auto version = text ? Version::parse(*text) : std::nullopt;
  if (!version || *version >= kFirstSafeToolkit) return;
  report.say(fmt::format("NVIDIA Container Toolkit {} lets a container break out (CVE-2025-23266)", *text),
             install_container_toolkit(subject.environment));
}

void small_shm(const Subject& subject, Report& report) {
  constexpr Bytes kDockersDefault(64ULL << 20U);
  const auto& systems = subject.environment.host.file_systems;
  const auto shm = std::ranges::find(systems, "/dev/shm", &facts::FileSystem::mount);
  if (!is_container(subject) || shm == systems.end() || shm->total > kDockersDefault) return;
  report.say(fmt::format("/dev/shm of this container has {}: data loaders and NCCL need more", format_size(shm->total)),
             {"docker run --ipc=host ...", "docker run --shm-size=16g ..."});
}

void wsl_one(const Subject& subject, Report& report) {
  if (subject.environment.host.wsl != 1) return;
  report.say("this is WSL 1, which cannot use GPUs", {"wsl --set-version DISTRIBUTION 2   # in PowerShell"});
}

void linux_driver_in_wsl(const Subject& subject, Report& report) {
  if (!is_wsl(subject) || !subject.environment.driver.package) return;
  report.say(fmt::format("a Linux display driver is installed inside WSL: {}", *subject.environment.driver.package),
             {"sudo apt remove --purge '^nvidia-driver.*' '^libnvidia-.*' '^libcuda1'",
              "[@nvidia] update the driver on Windows instead"});
}

void wsl_limits(const Subject& subject, Report& report) {
  const auto* python = subject.environment.pythons.empty() ? nullptr : &subject.environment.pythons.front();
  const bool serving = python != nullptr && (facts::find_package(*python, "vllm") != nullptr ||
                                             facts::find_package(*python, "sglang") != nullptr);
  if (!is_wsl(subject) || !serving || nvidia_gpus(subject).empty()) return;
  report.say("WSL: NVML answers only in part (no process lists, sometimes garbled names), and pinned memory is limited",
             {"[@nvidia] update the Windows driver; with vLLM set VLLM_WORKER_MULTIPROC_METHOD=spawn if workers hang"});
}

void no_device_plugin(const Subject& subject, Report& report) {
  if (!is_driven(subject) || subject.environment.containers.kubernetes_device_plugin != false) return;
  report.say(
      "this Kubernetes node runs no NVIDIA device plugin: pods cannot ask for nvidia.com/gpu",
      {"helm install gpu-operator nvidia/gpu-operator -n gpu-operator --create-namespace --set driver.enabled=false"});
}

constexpr auto kContainerChecks = std::to_array<Check>({
    {"container-without-gpu", Area::containers, Severity::error, "the devices of this container",
     "CUDA reports that there is no device.", "NVIDIA container toolkit documentation", kToolkit, no_devices,
     "container-given-no-gpu"},
    {"container-without-uvm", Area::containers, Severity::error, "/dev/nvidia-uvm in this container",
     "CUDA opens it before anything else.", "nvidia-ctk system create-device-nodes", kToolkit, uvm_not_passed},
    {"container-toolkit-missing", Area::containers, Severity::warning,
     "the NVIDIA Container Toolkit beside Docker or Podman",
     "\"could not select device driver with capabilities: [[gpu]]\".", "NVIDIA container toolkit documentation",
     kToolkit, toolkit_missing},
    {"container-runtime-not-configured", Area::containers, Severity::warning, "Docker's runtimes",
     "docker run --gpus fails, or --runtime=nvidia is unknown.", "NVIDIA container toolkit documentation", kToolkit,
     runtime_not_configured},
    {"cdi-specification-missing", Area::containers, Severity::warning, "CDI specifications for Podman",
     "--device nvidia.com/gpu=all is not resolved.", "NVIDIA container toolkit documentation, CDI", kToolkit,
     cdi_missing},
    {"container-toolkit-vulnerable", Area::containers, Severity::warning, "the toolkit's version",
     "Whoever may start a container becomes root on the host.",
     "NVIDIA security bulletin, CVE-2025-23266 (from memory)",
     "https://nvidia.custhelp.com/app/answers/detail/a_id/5659", toolkit_old},
    {"container-shm-small", Area::containers, Severity::warning, "/dev/shm in this container",
     "\"Bus error\" in data loaders, \"unable to open shared memory object\" in NCCL.",
     "NCCL user guide, troubleshooting; PyTorch README, Docker",
     "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html", small_shm},
    {"wsl-1", Area::containers, Severity::critical, "the version of WSL",
     "Only WSL 2 has a kernel that GPUs are passed to.", "CUDA on WSL user guide", kWsl, wsl_one},
    {"wsl-with-linux-driver", Area::containers, Severity::error, "Linux drivers inside WSL",
     "It overwrites the libcuda that reaches the Windows driver.", "CUDA on WSL user guide", kWsl, linux_driver_in_wsl},
    {"wsl-limits", Area::containers, Severity::info, "serving engines in WSL",
     "Some NVML calls that engines make are missing.",
     "CUDA on WSL user guide, known limitations; vllm-project/vllm#12390", kWsl, wsl_limits},
    {"kubernetes-device-plugin-missing", Area::containers, Severity::warning, "the device plugin of a Kubernetes node",
     "The scheduler does not know that the node has GPUs.", "NVIDIA k8s-device-plugin",
     "https://github.com/NVIDIA/k8s-device-plugin", no_device_plugin},
});

}  // namespace

std::span<const Check> container_checks() { return kContainerChecks; }

}  // namespace gpuwarden::doctor
