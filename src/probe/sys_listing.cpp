// SPDX-License-Identifier: Apache-2.0
#include "probe/sys_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/host_name.hpp"
#include "probe/problems.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

/// Cause and next step of a GPU that no NVIDIA driver serves.
Error why_disabled(const PciGpu& gpu, const Error& problem, bool module_loaded) {
  static constexpr std::array<std::string_view, 3> kSetAside{"vfio-pci", "pci-stub", "pciback"};
  if (!gpu.driver && !module_loaded) return {problem.code, "no driver loaded", problem.hint};
  if (!gpu.driver || *gpu.driver == "nvidia") return problem;
  if (std::ranges::find(kSetAside, *gpu.driver) != kSetAside.end()) {
    return {problem.code, fmt::format("it is set aside for virtual machines (kernel driver {})", *gpu.driver),
            "to use it here, unbind it from that driver and bind it to nvidia (driverctl unset-override, or remove "
            "its ids from vfio-pci's options)"};
  }
  return {problem.code, fmt::format("the kernel driver {} serves it; CUDA needs NVIDIA's own", *gpu.driver),
          "install NVIDIA's driver (Debian: apt install nvidia-driver), which keeps nouveau from loading, and reboot"};
}

}  // namespace

facts::Snapshot begin_snapshot(const ReaderOptions& options) {
  facts::Snapshot snapshot;
  snapshot.simulated = options.simulated;
  snapshot.fleet = options.fleet;
  snapshot.taken_at = options.clock->wall_now();
  snapshot.kernel_module_version = kernel_module_version(options.driver_proc_root);
  snapshot.host = own_host_name();
  return snapshot;
}

void list_from_sys(const ReaderOptions& options, facts::DriverProblem problem, facts::Snapshot& snapshot) {
  const facts::GpuState state = state_of_gpus(problem.kind);
  snapshot.source = "sysfs";
  auto gpus = scan_pci(options.sys_root);
  complete_from_driver(options.driver_proc_root, gpus);
  for (const PciGpu& gpu : gpus) {
    const bool disabled = state == facts::GpuState::disabled;
    const Error why = disabled ? why_disabled(gpu, problem, snapshot.kernel_module_version.has_value()) : problem;
    const GpuIndex index{static_cast<std::uint32_t>(snapshot.gpus.size())};
    snapshot.gpus.push_back(record_of(gpu, index, state, why.message, why.hint));
  }
  if (gpus.empty() && state == facts::GpuState::disabled)
    problem.message = "no NVIDIA GPU was found here: " + problem.message;
  snapshot.problem = std::move(problem);
}

}  // namespace gpuwarden::probe
