// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/machine/reservation.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;

/// "00000000:17:00.0", as NVML writes it, is "0000:17:00.0" in /sys.
std::string kernel_address(const std::string& bus_id) {
  const std::string lower = to_lower(bus_id);
  return lower.starts_with("0000") && lower.size() == 16 ? lower.substr(4) : lower;
}

fs::path file_of_gpu(const facts::Gpu& gpu, const fs::path& sys_root) {
  const std::string address = kernel_address(gpu.pci_bus_id);
  if (address.empty() || address.contains('/')) return {};
  return sys_root / "bus/pci/devices" / address / "vendor";
}

/// Source: NVIDIA's MIG user guide, "Device nodes": .../gpu0/mig/gi1/ci0/access.
fs::path file_of_instance(const facts::Gpu& gpu, const facts::MigDevice& mig, const fs::path& proc_root) {
  if (!gpu.minor_number || !mig.gpu_instance) return {};
  const fs::path instance = proc_root / "driver/nvidia/capabilities" / fmt::format("gpu{}", gpu.minor_number->value) /
                            "mig" / fmt::format("gi{}", *mig.gpu_instance);
  return instance / fmt::format("ci{}", mig.compute_instance.value_or(0)) / "access";
}

}  // namespace

std::vector<lease::Device> lease_devices(const facts::Snapshot& snapshot, const fs::path& sys_root,
                                         const fs::path& proc_root) {
  std::vector<lease::Device> devices;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    if (record.gpu.vendor != "NVIDIA") continue;
    // A GPU without a UUID, as that of a Jetson, is leased by its index.
    const std::string name =
        record.gpu.uuid.value.empty() ? fmt::format("index-{}", record.gpu.index.value) : record.gpu.uuid.value;
    devices.push_back({Uuid(name), file_of_gpu(record.gpu, sys_root)});
    for (const facts::MigDevice& mig : record.mig_devices)
      devices.push_back({mig.uuid, file_of_instance(record.gpu, mig, proc_root)});
  }
  return devices;
}

}  // namespace gpuwarden::machine
