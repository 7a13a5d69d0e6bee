// SPDX-License-Identifier: Apache-2.0
// Everything that was seen on one machine at one moment: what probes make and judges read.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/driver_problem.hpp"
#include "gpuwarden/facts/environment.hpp"
#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::facts {

/// A GPU with its reading, its processes and, if it is in trouble, the cause and the next step.
struct GpuRecord {
  Gpu gpu;
  GpuSample sample;
  /// Empty optional: NVML did not tell. Empty vector: nobody.
  std::optional<std::vector<GpuProcess>> processes;
  /// NVML has such a list, but asking for it failed: somebody may well be computing there.
  bool processes_unreadable = false;
  std::vector<MigDevice> mig_devices;
  /// false where the source names no MIG instances (nvidia-smi's CSV), so that an empty list says nothing.
  std::optional<bool> mig_listed;
  GpuState state = GpuState::available;
  std::string cause;      ///< a sentence; available and busy GPUs have one only where they are special (a Jetson)
  std::string next_step;  ///< what to do about it; may be empty

  bool operator==(const GpuRecord&) const = default;
};

/// Whether the GPU answers, so that work can be given to it (available or busy).
bool is_usable(const GpuRecord& record);

/// How two GPUs are joined, closest first; the levels are nvidia-smi topo's: PIX, PXB, PHB, NODE, SYS.
enum class LinkLevel { internal, single_switch, multiple_switches, host_bridge, node, system };
std::string_view to_string(LinkLevel level);
std::optional<LinkLevel> link_level_from(std::string_view name);

/// The connection between GPUs `a` and `b` (a < b). nvlinks counts active NVLinks between them, through NVSwitch too.
struct Link {
  GpuIndex a;
  GpuIndex b;
  std::optional<LinkLevel> level;
  int nvlinks = 0;
  /// Peer access as nvidia-smi topo -p2p prints it: "OK", "CNS" (chipset), "GNS" (GPU), "TNS" (topology), "DR"
  /// (disabled by registry key), "NS" (not supported), "U" (unknown).
  std::optional<std::string> p2p_read;
  std::optional<std::string> p2p_write;
  std::optional<std::string> p2p_nvlink;
  std::optional<std::string> p2p_atomics;

  bool operator==(const Link&) const = default;
};

/// A network adapter, and how near each GPU is to it.
struct Nic {
  std::string name;  ///< "mlx5_0"
  std::optional<std::string> pci_bus_id;
  std::optional<int> numa_node;
  /// One entry for each GPU for which it is known.
  struct Distance {
    GpuIndex gpu;
    LinkLevel level = LinkLevel::system;
    bool operator==(const Distance&) const = default;
  };
  std::vector<Distance> distances;

  bool operator==(const Nic&) const = default;
};

/// A fault that the driver reported to the kernel log.
struct KernelFault {
  std::string kind;  ///< "xid" (GPU) or "sxid" (NVSwitch)
  std::uint32_t code = 0;
  std::optional<std::string> pci_bus_id;  ///< as written, at least "0000:17:00"
  std::optional<Pid> pid;
  std::string text;        ///< what followed the code
  std::uint32_t line = 0;  ///< in its source, from 1

  bool operator==(const KernelFault&) const = default;
};

/// All facts of one moment. `problem` is set where the driver as a whole did not answer; the GPUs are then listed
/// from PCI ids, in state disabled or not_answering.
struct Snapshot {
  bool simulated = false;
  std::string fleet;  ///< the simulated fleet's name
  /// Who listed the GPUs: "nvml", "nvidia-smi" (run or captured), "sysfs", "rocm-smi", "amd-smi", "xpu-smi".
  std::string source = "nvml";
  std::string origin;  ///< for a capture: the file and its kinds ("box.txt: smi_table, topo"); empty on a live machine
  std::chrono::system_clock::time_point taken_at{};
  std::string host;
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_driver_version;  ///< "12.4"
  std::optional<std::string> nvml_version;
  std::optional<std::string> kernel_module_version;
  std::optional<DriverProblem> problem;
  /// What is missing though the GPUs answered.
  std::vector<ReadingGap> gaps;
  std::vector<GpuRecord> gpus;
  /// Empty where the topology was not asked for.
  std::optional<std::vector<Link>> links;
  std::vector<Nic> nics;
  /// Empty where no kernel log was read.
  std::optional<std::vector<KernelFault>> kernel_faults;
  /// GPU UUIDs in CUDA's order under FASTEST_FIRST; known only where the CUDA driver was asked.
  std::optional<std::vector<Uuid>> cuda_order;
  /// The software around the GPUs; empty where it was not looked at.
  std::optional<Environment> environment;

  bool operator==(const Snapshot&) const = default;
};

}  // namespace gpuwarden::facts
