// SPDX-License-Identifier: Apache-2.0
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;

/// The GPU's last MIG instance, or the GPU where it has none.
Device instance_or_gpu(const Nvml& nvml, Device device) {
  Device found = device;
  for (unsigned i = 0; nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &found) == kSuccess;) ++i;
  return found;
}

template <auto function>
std::string of_instance(const Nvml& nvml, Device device) {
  return number<function>(nvml, instance_or_gpu(nvml, device));
}

std::string name_of_instance(const Nvml& nvml, Device device) {
  Device instance = nullptr;
  const Return code = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &instance);
  return code == kSuccess ? text<&F::nvmlDeviceGetName>(nvml, instance) : say(code);
}

std::string parent(const Nvml& nvml, Device device) {
  Device found = nullptr;
  const Return code = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance_or_gpu(nvml, device), &found);
  return say(code, found == device ? "the GPU" : "another");
}

std::string attributes(const Nvml& nvml, Device device) {
  DeviceAttributes value{};
  const Return code = nvml.nvmlDeviceGetAttributes_v2(instance_or_gpu(nvml, device), &value);
  return say(code, value.multiprocessors, value.gpu_instance_slices, value.memory_mib);
}

std::string ancestor(const Nvml& nvml, Device device) {
  int level = 0;
  const Return code = nvml.nvmlDeviceGetTopologyCommonAncestor(device, nvml.gpu(1), &level);
  return say(code, level);
}

std::string peer_to_peer(const Nvml& nvml, Device device) {
  int status = 0;
  const Return code = nvml.nvmlDeviceGetP2PStatus(device, nvml.gpu(1), kP2pCapsNvLink, &status);
  return say(code, status);
}

template <auto function>
std::string remote(const Nvml& nvml, Device device) {
  PciInfo info{};
  const Return code = (nvml.*function)(device, 3, &info);
  // A link of the direct fleet ends at GPU 1, one of the other fleet at a switch.
  PciInfo gpu{};
  nvml.nvmlDeviceGetPciInfo_v3(nvml.gpu(1), &gpu);
  return say(code, std::string_view(info.bus_id) == gpu.bus_id ? "GPU 1" : "a switch");
}

}  // namespace

std::vector<Proof> mig_and_link_proofs() {
  const std::string events =
      std::to_string(kEventSingleBitEcc | kEventDoubleBitEcc | kEventPState | kEventXid | kEventClock);
  return {
      {"nvmlDeviceGetMigMode", two_numbers<&F::nvmlDeviceGetMigMode>, "0 0", set("mig_enabled", 1), "1 0"},
      {"nvmlDeviceIsMigDeviceHandle", of_instance<&F::nvmlDeviceIsMigDeviceHandle>, "0", nullptr, "1"},
      {"nvmlDeviceGetMaxMigDeviceCount", number<&F::nvmlDeviceGetMaxMigDeviceCount>, "7", fault("lost"), "error 15"},
      {"nvmlDeviceGetMigDeviceHandleByIndex", name_of_instance, "error 3", nullptr,
       "NVIDIA H100 80GB HBM3 MIG 3g.40gb"},
      {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle", parent, "error 2", nullptr, "the GPU"},
      {"nvmlDeviceGetGpuInstanceId", of_instance<&F::nvmlDeviceGetGpuInstanceId>, "error 3", nullptr, "8"},
      {"nvmlDeviceGetComputeInstanceId", of_instance<&F::nvmlDeviceGetComputeInstanceId>, "error 3", nullptr, "0"},
      {"nvmlDeviceGetAttributes_v2", attributes, "error 3", nullptr, "16 1 9984"},
      {"nvmlDeviceGetTopologyCommonAncestor", ancestor, std::to_string(kTopologyMultiple), set("numa_node", 0),
       std::to_string(kTopologySystem)},
      {"nvmlDeviceGetP2PStatus", peer_to_peer, std::to_string(kP2pOk), set("nvlink_count", 0),
       std::to_string(kP2pNotSupported)},
      {"nvmlDeviceGetNvLinkState", number<&F::nvmlDeviceGetNvLinkState, 3U>, "1", fault("nvlink_down=3"), "0"},
      {"nvmlDeviceGetNvLinkState", number<&F::nvmlDeviceGetNvLinkState, 2U>, "1", fault("nvlink_down=3"), "1"},
      {"nvmlDeviceGetNvLinkState", number<&F::nvmlDeviceGetNvLinkState, 3U>, "1", set("nvlink_count", 3), "error 2"},
      {"nvmlDeviceGetNvLinkVersion", number<&F::nvmlDeviceGetNvLinkVersion, 0U>, "3", set("nvlink_version", 4), "4"},
      {"nvmlDeviceGetNvLinkRemotePciInfo", remote<&F::nvmlDeviceGetNvLinkRemotePciInfo>, "GPU 1", nullptr, "a switch"},
      {"nvmlDeviceGetNvLinkRemotePciInfo_v2", remote<&F::nvmlDeviceGetNvLinkRemotePciInfo_v2>, "GPU 1", nullptr,
       "a switch"},
      {"nvmlDeviceGetSupportedEventTypes", number<&F::nvmlDeviceGetSupportedEventTypes>, events, fault("lost"),
       "error 15"},
  };
}

}  // namespace gpuwarden::nvml
