// SPDX-License-Identifier: Apache-2.0
#include "probe/nvml_links.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace gpuwarden::probe {
namespace {

/// The far ends of a GPU's active NVLinks: bus ids of GPUs, or of switches.
std::vector<std::string> far_ends(const nvml::Functions& nvml, nvml::Device device) {
  std::vector<std::string> ends;
  for (unsigned link = 0; link < nvml::kNvLinkMaxLinks; ++link) {
    int active = 0;
    nvml::PciInfo remote{};
    if (call(nvml.nvmlDeviceGetNvLinkState, device, link, &active) != nvml::kSuccess || active == 0) continue;
    if (call(nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &remote) != nvml::kSuccess) continue;
    ends.push_back(fmt::format("{:08X}:{:02X}:{:02X}", remote.domain, remote.bus, remote.device));
  }
  return ends;
}

std::string own_end(const nvml::Functions& nvml, nvml::Device device) {
  nvml::PciInfo own{};
  if (call(nvml.nvmlDeviceGetPciInfo_v3, device, &own) != nvml::kSuccess) return "";
  return fmt::format("{:08X}:{:02X}:{:02X}", own.domain, own.bus, own.device);
}

std::optional<facts::LinkLevel> level_of(int level) {
  switch (level) {
    case nvml::kTopologyInternal:
      return facts::LinkLevel::internal;
    case nvml::kTopologySingle:
      return facts::LinkLevel::single_switch;
    case nvml::kTopologyMultiple:
      return facts::LinkLevel::multiple_switches;
    case nvml::kTopologyHostBridge:
      return facts::LinkLevel::host_bridge;
    case nvml::kTopologyNode:
      return facts::LinkLevel::node;
    case nvml::kTopologySystem:
      return facts::LinkLevel::system;
    default:
      return std::nullopt;
  }
}

/// As nvidia-smi topo -p2p prints it.
std::optional<std::string> peer_status(const nvml::Functions& nvml, nvml::Device a, nvml::Device b, int capability) {
  int status = -1;
  if (call(nvml.nvmlDeviceGetP2PStatus, a, b, capability, &status) != nvml::kSuccess) return std::nullopt;
  switch (status) {
    case nvml::kP2pOk:
      return "OK";
    case nvml::kP2pChipsetNotSupported:
      return "CNS";
    case nvml::kP2pGpuNotSupported:
      return "GNS";
    case nvml::kP2pTopologyNotSupported:
      return "TNS";
    case nvml::kP2pDisabledByRegistry:
      return "DR";
    case nvml::kP2pNotSupported:
      return "NS";
    default:
      return "U";
  }
}

}  // namespace

std::vector<facts::Link> read_links(const nvml::Functions& nvml, const std::vector<nvml::Device>& devices,
                                    const std::vector<GpuIndex>& indices, bool peer_access) {
  std::vector<std::string> own;
  std::vector<std::vector<std::string>> ends;
  for (const nvml::Device device : devices) {
    own.push_back(own_end(nvml, device));
    ends.push_back(far_ends(nvml, device));
  }
  const auto to_switch = [&](std::size_t i) {
    // Links that end at no GPU of this machine end at a switch, which joins all of them.
    return std::ranges::count_if(ends[i],
                                 [&](const std::string& end) { return std::ranges::find(own, end) == own.end(); });
  };
  std::vector<facts::Link> links;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = i + 1; j < devices.size(); ++j) {
      facts::Link link{.a = indices[i], .b = indices[j]};
      int level = -1;
      if (call(nvml.nvmlDeviceGetTopologyCommonAncestor, devices[i], devices[j], &level) == nvml::kSuccess)
        link.level = level_of(level);
      const auto direct = std::min(std::ranges::count(ends[i], own[j]), std::ranges::count(ends[j], own[i]));
      link.nvlinks = static_cast<int>(direct + std::min(to_switch(i), to_switch(j)));
      if (peer_access) {
        link.p2p_read = peer_status(nvml, devices[i], devices[j], nvml::kP2pCapsRead);
        link.p2p_write = peer_status(nvml, devices[i], devices[j], nvml::kP2pCapsWrite);
        link.p2p_nvlink = peer_status(nvml, devices[i], devices[j], nvml::kP2pCapsNvLink);
        link.p2p_atomics = peer_status(nvml, devices[i], devices[j], nvml::kP2pCapsAtomics);
      }
      links.push_back(link);
    }
  }
  return links;
}

std::optional<std::vector<Uuid>> read_cuda_order() {
  // The driver's own enumeration is asked for, not the caller's restricted one.
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  void* cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) return std::nullopt;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(cuda, "cuInit"));
  const auto count_of = reinterpret_cast<int (*)(int*)>(::dlsym(cuda, "cuDeviceGetCount"));
  const auto device_at = reinterpret_cast<int (*)(int*, int)>(::dlsym(cuda, "cuDeviceGet"));
  const auto uuid_of = reinterpret_cast<int (*)(unsigned char*, int)>(::dlsym(cuda, "cuDeviceGetUuid"));
  int count = 0;
  if (init == nullptr || count_of == nullptr || device_at == nullptr || uuid_of == nullptr) return std::nullopt;
  if (init(0) != 0 || count_of(&count) != 0) return std::nullopt;
  std::vector<Uuid> order;
  for (int i = 0; i < count; ++i) {
    int device = 0;
    std::array<unsigned char, 16> b{};
    if (device_at(&device, i) != 0 || uuid_of(b.data(), device) != 0) return std::nullopt;
    order.emplace_back(fmt::format("GPU-{:02x}{:02x}{:02x}{:02x}-{:02x}{:02x}-{:02x}{:02x}-{:02x}{:02x}-{:02x}", b[0],
                                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9],
                                   fmt::join(b.begin() + 10, b.end(), "")));
  }
  return order;
}

}  // namespace gpuwarden::probe
