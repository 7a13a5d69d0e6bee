// SPDX-License-Identifier: Apache-2.0
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

template <auto function>
std::string pci(const Nvml& nvml, Device device) {
  PciInfo info{};
  const Return code = (nvml.*function)(device, &info);
  return say(code, info.bus_id, info.bus_id_legacy,
             fmt::format("{:x}:{:x}:{:x} {:08x}", info.domain, info.bus, info.device, info.pci_device_id));
}

std::string cpus(const Nvml& nvml, Device device) {
  std::array<unsigned long, 2> mask{};
  const Return code = nvml.nvmlDeviceGetCpuAffinity(device, mask.size(), mask.data());
  return say(code, mask[0], mask[1]);
}

std::string nodes(const Nvml& nvml, Device device) {
  unsigned long mask = 0;
  const Return code = nvml.nvmlDeviceGetMemoryAffinity(device, 1, &mask, kAffinityScopeNode);
  return say(code, mask);
}

std::string last_index(const Nvml& nvml, Device) {
  unsigned count = 0;
  unsigned index = 0;
  nvml.nvmlDeviceGetCount_v2(&count);
  const Return code = nvml.nvmlDeviceGetIndex(nvml.gpu(count - 1), &index);
  return say(code, index);
}

}  // namespace

std::vector<Proof> identity_proofs() {
  using F = Functions;
  const std::string bus = "00000000:17:00.0 0000:17:00.0 0:17:0 20b210de";
  const std::string other_bus = "00000001:4C:00.0 0001:4C:00.0 1:4c:0 233010de";
  return {
      {"nvmlDeviceGetName", text<&F::nvmlDeviceGetName>, "NVIDIA A100-SXM4-80GB", nullptr, "NVIDIA H100 80GB HBM3"},
      {"nvmlDeviceGetBrand", number<&F::nvmlDeviceGetBrand>, std::to_string(kBrandNvidia), fault("lost"), "error 15"},
      {"nvmlDeviceGetIndex", last_index, "1", nullptr, "2"},
      {"nvmlDeviceGetMinorNumber", number<&F::nvmlDeviceGetMinorNumber>, "0", set("minor_number", 5), "5"},
      {"nvmlDeviceGetSerial", text<&F::nvmlDeviceGetSerial>, "1320000000001", nullptr, "1650000000009"},
      {"nvmlDeviceGetUUID", text<&F::nvmlDeviceGetUUID>, "GPU-11111111-2222-3333-4444-555555555555", nullptr,
       "GPU-99999999-2222-3333-4444-555555555555"},
      {"nvmlDeviceGetBoardId", number<&F::nvmlDeviceGetBoardId>, std::to_string(0x1700), nullptr,
       std::to_string(0x4C00)},
      {"nvmlDeviceGetBoardPartNumber", text<&F::nvmlDeviceGetBoardPartNumber>, "692-2G506-0200-002", nullptr,
       "692-2G520-0200-000"},
      {"nvmlDeviceGetVbiosVersion", text<&F::nvmlDeviceGetVbiosVersion>, "92.00.45.00.03", nullptr, "96.00.74.00.01"},
      {"nvmlDeviceGetPciInfo", pci<&F::nvmlDeviceGetPciInfo>, bus, nullptr, other_bus},
      {"nvmlDeviceGetPciInfo_v2", pci<&F::nvmlDeviceGetPciInfo_v2>, bus, nullptr, other_bus},
      {"nvmlDeviceGetPciInfo_v3", pci<&F::nvmlDeviceGetPciInfo_v3>, bus, nullptr, other_bus},
      {"nvmlDeviceGetCudaComputeCapability", two_numbers<&F::nvmlDeviceGetCudaComputeCapability>, "8 0", nullptr,
       "9 0"},
      {"nvmlDeviceGetArchitecture", number<&F::nvmlDeviceGetArchitecture>, std::to_string(kArchAmpere), nullptr,
       std::to_string(kArchHopper)},
      {"nvmlDeviceGetNumGpuCores", number<&F::nvmlDeviceGetNumGpuCores>, "6912", set("cuda_cores", 16896), "16896"},
      {"nvmlDeviceGetMemoryBusWidth", number<&F::nvmlDeviceGetMemoryBusWidth>, "5120", set("bus_width", 384), "384"},
      {"nvmlDeviceGetPersistenceMode", number<&F::nvmlDeviceGetPersistenceMode>, "1", set("persistence", 0), "0"},
      {"nvmlDeviceGetComputeMode", number<&F::nvmlDeviceGetComputeMode>, "0", set("compute_mode", 3), "3"},
      {"nvmlDeviceGetDisplayMode", number<&F::nvmlDeviceGetDisplayMode>, "0", set("display_mode", 1), "1"},
      {"nvmlDeviceGetDisplayActive", number<&F::nvmlDeviceGetDisplayActive>, "0", set("display_active", 1), "1"},
      // On Linux the real library has no driver model to tell of, whatever the GPU.
      {"nvmlDeviceGetDriverModel_v2", two_numbers<&F::nvmlDeviceGetDriverModel_v2>, "error 3", fault("lost"),
       "error 15"},
      {"nvmlDeviceGetCpuAffinity", cpus, fmt::format("{} 0", 0x10F), nullptr, "2 1"},
      {"nvmlDeviceGetMemoryAffinity", nodes, "2", set("numa_node", 3), "8"},
      {"nvmlDeviceGetNumaNodeId", number<&F::nvmlDeviceGetNumaNodeId>, "1", set("numa_node", 0), "0"},
  };
}

}  // namespace gpuwarden::nvml
