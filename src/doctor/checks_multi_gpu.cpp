// SPDX-License-Identifier: Apache-2.0
// What several GPUs need to work together: NVSwitch fabric, NVLink, peer access, the way to the network.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using facts::LinkLevel;

constexpr std::string_view kFabricManager = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/";
constexpr std::string_view kNcclTrouble =
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html";

bool is_ready(const facts::Fabric& fabric) {
  return fabric.state == "completed" && fabric.status.value_or("success") == "success";
}

/// A GPU behind an NVSwitch has a fabric state. Where every fabric is ready somebody cares for it: on machines whose
/// NVLinks end in switch trays, the fabric manager runs there.
bool needs_fabric_manager(const Subject& subject) {
  return std::ranges::any_of(subject.snapshot.gpus,
                             [](const GpuRecord& gpu) { return gpu.gpu.fabric && !is_ready(*gpu.gpu.fabric); });
}

void manager_not_running(const Subject& subject, Report& report) {
  if (!needs_fabric_manager(subject) || subject.environment.services.empty() || is_container(subject)) return;
  const auto* service = facts::find_service(subject.environment, "nvidia-fabricmanager");
  if (service != nullptr && service->state == "running") return;
  std::vector<std::string> steps;
  if (service == nullptr)
    steps.push_back(install_fabric_manager(subject.environment, subject.snapshot.driver_version.value_or("")).front());
  else
    steps.emplace_back("sudo journalctl -u nvidia-fabricmanager -n 50");
  steps.push_back(enable_service("nvidia-fabricmanager"));
  report.say(service == nullptr ? "this machine has NVSwitches and no fabric manager"
                                : fmt::format("the fabric manager is {}", service->state),
             std::move(steps));
}

void manager_version(const Subject& subject, Report& report) {
  const auto* service = facts::find_service(subject.environment, "nvidia-fabricmanager");
  const auto& driver = subject.snapshot.driver_version;
  if (service == nullptr || !service->version || !driver || *service->version == *driver) return;
  report.say(fmt::format("fabric manager {} does not go with driver {}: the two must be equal to the last digit",
                         *service->version, *driver),
             install_fabric_manager(subject.environment, *driver));
}

void fabric_not_ready(const Subject& subject, Report& report) {
  const auto gpus =
      gpus_that(subject, [](const GpuRecord& gpu) { return gpu.gpu.fabric && !is_ready(*gpu.gpu.fabric); });
  if (gpus.empty()) return;
  const auto& fabric = *gpus[0]->gpu.fabric;
  report.say(fmt::format("the NVLink fabric of {} is {}{}", name_gpus(gpus),
                         fabric.state == "completed" ? "broken" : fabric.state,
                         fabric.status ? " (" + *fabric.status + ")" : ""),
             {"sudo systemctl restart nvidia-fabricmanager", "sudo journalctl -u nvidia-fabricmanager -n 50"});
}

void links_down(const Subject& subject, Report& report) {
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    const auto& links = gpu.sample.nvlinks;
    const bool any = std::ranges::any_of(links, [](const auto& link) { return link.active == true; });
    return any && std::ranges::any_of(links, [](const auto& link) { return link.active == false; });
  });
  if (gpus.empty()) return;
  const auto down =
      std::ranges::count_if(gpus[0]->sample.nvlinks, [](const auto& link) { return link.active == false; });
  report.say(fmt::format("{} of {} NVLinks of {} are down", down, gpus[0]->sample.nvlinks.size(), name_gpus(gpus)),
             {"nvidia-smi nvlink -s", "reseat the bridge, or reset the GPUs; then ask the vendor"});
}

void fewer_links(const Subject& subject, Report& report) {
  std::size_t most = 0;
  const auto active = [](const GpuRecord& gpu) {
    return static_cast<std::size_t>(
        std::ranges::count_if(gpu.sample.nvlinks, [](const auto& link) { return link.active == true; }));
  };
  const auto all = nvidia_gpus(subject);
  for (const auto* gpu : all) {
    if (gpu->gpu.name == all[0]->gpu.name) most = std::max(most, active(*gpu));
  }
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
    return gpu.gpu.name == all[0]->gpu.name && active(gpu) < most && active(gpu) > 0 &&
           gpu.sample.nvlinks.size() == active(gpu);
  });
  if (gpus.empty()) return;
  report.say(fmt::format("{} {} NVLinks up, equal GPUs beside have {}", name_gpus(gpus, "has", "have"),
                         active(*gpus[0]), most),
             {"nvidia-smi nvlink -s", "nvidia-smi topo -m"});
}

void link_errors(const Subject& subject, Report& report) {
  constexpr std::uint64_t kManyCrc = 100;
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) {
    return std::ranges::any_of(gpu.sample.nvlinks, [](const auto& link) {
      const auto count = [](const std::optional<Count>& one) {
        return one ? static_cast<std::uint64_t>(one->value) : std::uint64_t{0};
      };
      return count(link.recovery_errors) > 0 || count(link.replay_errors) >= kManyCrc ||
             count(link.crc_data_errors) >= kManyCrc;
    });
  });
  if (gpus.empty()) return;
  report.say(fmt::format("the NVLinks of {} have errors", name_gpus(gpus)),
             {"nvidia-smi nvlink -e", "reset the GPUs; if it goes on, ask the vendor"});
}

void no_peer_access(const Subject& subject, Report& report) {
  if (!subject.snapshot.links) return;
  for (const auto& link : *subject.snapshot.links) {
    const std::string read = link.p2p_read.value_or("OK");
    if (read == "OK" || read == "NS" || read == "U") continue;  // not supported by the model: nothing to mend
    const std::string_view why = read == "CNS"  ? "the chipset does not allow it"
                                 : read == "DR" ? "a registry key disables it"
                                                : "not over this way";
    report.say(
        fmt::format("GPU {} cannot read GPU {}'s memory directly: {} ({})", link.a.value, link.b.value, why, read),
        {"nvidia-smi topo -p2p r", "check IOMMU and ACS in the firmware setup"});
    return;
  }
}

void vbios(const Subject& subject, Report& report) {
  const auto all = nvidia_gpus(subject);
  for (const auto* gpu : all) {
    const auto other = std::ranges::find_if(all, [&](const GpuRecord* one) {
      return one->gpu.name == gpu->gpu.name && one->gpu.vbios_version && gpu->gpu.vbios_version &&
             one->gpu.pci_device_id == gpu->gpu.pci_device_id && *one->gpu.vbios_version != *gpu->gpu.vbios_version;
    });
    if (other == all.end()) continue;
    report.say(fmt::format("GPU {} and GPU {} are the same model with different VBIOS: {} and {}", gpu->gpu.index.value,
                           (*other)->gpu.index.value, *gpu->gpu.vbios_version, *(*other)->gpu.vbios_version));
    return;
  }
}

void limits_differ(const Subject& subject, Report& report) {
  const auto all = nvidia_gpus(subject);
  for (const auto* gpu : all) {
    if (gpu->gpu.name != all[0]->gpu.name || !gpu->sample.power_limit || !all[0]->sample.power_limit) continue;
    if (*gpu->sample.power_limit == *all[0]->sample.power_limit) continue;
    report.say(fmt::format("GPU {} may draw {} W, GPU {} {} W: the slower one sets the pace of a job",
                           all[0]->gpu.index.value, all[0]->sample.power_limit->value / 1000, gpu->gpu.index.value,
                           gpu->sample.power_limit->value / 1000),
               {"sudo nvidia-smi -pl WATTS   # the same for all"});
    return;
  }
}

void fewer_than_devices(const Subject& subject, Report& report) {
  const auto& nodes = subject.environment.device_nodes;
  const auto count = static_cast<std::size_t>(std::ranges::count_if(nodes, [](const facts::DeviceNode& node) {
    return node.exists && node.openable != false && node.path.starts_with("/dev/nvidia") && node.path.size() > 11 &&
           node.path.find_first_not_of("0123456789", 11) == std::string::npos;
  }));
  const auto listed = nvidia_gpus(subject).size();
  if (count == 0 || subject.snapshot.problem || listed >= count || subject.snapshot.simulated) return;
  // Files of another system tell nothing of who is listed there.
  if (listed == 0 && is_elsewhere(subject)) return;
  report.say(fmt::format("{} GPUs have a device file, {} are listed", count, listed),
             {"sudo dmesg | grep -i -E 'nvrm|xid' | tail -20", "lspci -d 10de: -nn"});
}

void acs(const Subject& subject, Report& report) {
  const auto& bridges = subject.environment.host.acs_bridges;
  if (bridges.empty() || nvidia_gpus(subject).size() < 2 || is_virtual_machine(subject)) return;
  report.say(
      fmt::format("ACS on {} PCIe bridges sends traffic between GPUs through the CPU ({})", bridges.size(), bridges[0]),
      {"disable ACS in the firmware setup",
       fmt::format("sudo setpci -s {} ECAP_ACS+0x6.w=0000   # until the next boot", bridges[0])});
}

void iommu(const Subject& subject, Report& report) {
  if (subject.environment.host.iommu != true || nvidia_gpus(subject).size() < 2 || is_virtual_machine(subject)) return;
  report.say("the IOMMU translates DMA: traffic between GPUs can be slow or hang",
             {"[@modules] add iommu=pt to the kernel command line", "sudo reboot"});
}

bool has_infiniband(const Subject& subject) {
  return std::ranges::any_of(subject.snapshot.nics, [](const facts::Nic& nic) {
    return nic.name.starts_with("mlx") || nic.name.starts_with("ib");
  });
}

void peermem(const Subject& subject, Report& report) {
  const auto& modules = subject.environment.driver.loaded_modules;
  const auto loaded = [&](std::string_view name) { return std::ranges::find(modules, name) != modules.end(); };
  if (!has_infiniband(subject) || !loaded("nvidia") || loaded("nvidia_peermem")) return;
  // The open module hands out DMA-BUF instead.
  if (subject.environment.driver.flavour == facts::ModuleFlavour::open) return;
  report
      .say("nvidia_peermem is not loaded: InfiniBand cannot read GPU memory directly",
           {"sudo modprobe nvidia_peermem", "echo nvidia_peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf"})
      .safe = true;
}

void no_numa(const Subject& subject, Report& report) {
  if (subject.environment.host.numa_nodes.value_or(1) < 2 || is_virtual_machine(subject)) return;
  const auto gpus = gpus_that(subject, [](const GpuRecord& gpu) { return gpu.gpu.numa_node == -1; });
  if (gpus.empty()) return;
  report.say(fmt::format("the firmware does not say to which NUMA node {} belongs", name_gpus(gpus)),
             {"update the firmware (BIOS), or turn on NUMA in its setup"});
}

std::optional<LinkLevel> nearest_adapter(const Subject& subject, GpuIndex gpu) {
  std::optional<LinkLevel> nearest;
  for (const auto& nic : subject.snapshot.nics) {
    for (const auto& distance : nic.distances) {
      if (distance.gpu == gpu && (!nearest || distance.level < *nearest)) nearest = distance.level;
    }
  }
  return nearest;
}

void nic_far(const Subject& subject, Report& report) {
  if (!has_infiniband(subject)) return;
  const auto gpus = gpus_that(
      subject, [&](const GpuRecord& gpu) { return nearest_adapter(subject, gpu.gpu.index) == LinkLevel::system; });
  if (gpus.empty()) return;
  report.say(fmt::format("{} every network adapter only across CPU sockets", name_gpus(gpus, "reaches", "reach")));
}

constexpr auto kMultiGpuChecks = std::to_array<Check>({
    {"fabric-manager-not-running", Area::multi_gpu, Severity::error, "the fabric manager of NVSwitch machines",
     "CUDA does not start without it: error 802, \"system not yet initialized\".", "NVIDIA fabric manager user guide",
     kFabricManager, manager_not_running},
    {"fabric-manager-version-differs", Area::multi_gpu, Severity::error, "the fabric manager against the driver",
     "It refuses to run with another driver.", "NVIDIA fabric manager user guide; NVIDIA/NVSentinel#883",
     kFabricManager, manager_version, "driver-library-mismatch driver-waits-for-reboot"},
    {"fabric-not-ready", Area::multi_gpu, Severity::error, "the state of the NVLink fabric",
     "CUDA waits for it, or the GPU has no NVLink.", "nvml.h, nvmlDeviceGetGpuFabricInfoV", kFabricManager,
     fabric_not_ready, "fabric-manager-not-running fabric-manager-version-differs"},
    {"nvlink-down", Area::multi_gpu, Severity::error, "NVLinks that are down beside others that are up",
     "Collectives run at the speed of the slowest link.", "nvml.h, nvmlDeviceGetNvLinkState", "", links_down},
    {"nvlink-fewer-than-peers", Area::multi_gpu, Severity::warning, "NVLinks of equal GPUs",
     "Rings through that GPU are slower.", "nvml.h, nvmlDeviceGetNvLinkState", "", fewer_links},
    {"nvlink-errors", Area::multi_gpu, Severity::warning, "NVLink error counters",
     "Errors are repeated; many of them cost time, and come before failures.", "nvml.h, NVLink error counters", "",
     link_errors},
    {"peer-access-blocked", Area::multi_gpu, Severity::warning, "peer access between GPUs",
     "NCCL goes through host memory instead.", "nvidia-smi topo -p2p; NCCL user guide", kNcclTrouble, no_peer_access},
    {"vbios-differs", Area::multi_gpu, Severity::info, "VBIOS of equal GPUs", "Clocks and power management may differ.",
     "Azure and Imbue node health checks", "", vbios},
    {"power-limits-differ", Area::multi_gpu, Severity::warning, "power limits of equal GPUs",
     "A synchronous job waits for its slowest GPU.", "nvml.h, power management limit", "", limits_differ},
    {"fewer-gpus-than-devices", Area::multi_gpu, Severity::error, "listed GPUs against device files",
     "A GPU that was there at boot is gone.", "DCGM_FR_DEVICE_COUNT_MISMATCH", "", fewer_than_devices, "gpu-lost"},
    {"acs-redirects-peer-traffic", Area::multi_gpu, Severity::warning, "ACS on PCIe bridges above GPUs",
     "Peer traffic goes up to the root complex and back: slow, or it hangs.",
     "NCCL user guide, troubleshooting; gpud components/pci", kNcclTrouble, acs},
    {"iommu-translates", Area::multi_gpu, Severity::warning, "the IOMMU on bare metal",
     "It redirects PCI point-to-point traffic to the CPU.", "NCCL user guide, troubleshooting", kNcclTrouble, iommu},
    {"peermem-not-loaded", Area::multi_gpu, Severity::warning, "GPUDirect RDMA beside InfiniBand",
     "Traffic to other machines is copied through host memory.", "NCCL user guide, GPU direct", kNcclTrouble, peermem},
    {"numa-node-unknown", Area::multi_gpu, Severity::info, "the GPUs' NUMA nodes",
     "Processes cannot be bound near their GPU.", "/sys/bus/pci/devices/*/numa_node", "", no_numa},
    {"network-far-from-gpu", Area::multi_gpu, Severity::info, "the way from GPUs to network adapters",
     "Its traffic crosses the sockets' interconnect.", "nvidia-smi topo -m", "", nic_far},
});

}  // namespace

std::span<const Check> multi_gpu_checks() { return kMultiGpuChecks; }

}  // namespace gpuwarden::doctor
