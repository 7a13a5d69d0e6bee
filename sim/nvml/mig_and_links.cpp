// SPDX-License-Identifier: Apache-2.0
// MIG instances, topology, NVLink.
#include <cstring>
#include <string>

#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;
using sim::Field;

Return instance_id(Device device, unsigned* id, std::uint32_t sim::MigInstance::* field) {
  if (id == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.instance == nullptr) return kNotSupported;
  *id = target.instance->*field;
  return kSuccess;
}

/// Link numbers from 0; the two ends share the links of a direct fleet evenly among their peers.
Return check_link(Device device, unsigned link, Target& target) {
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  const auto count = sim::at(target.gpu->readings, Field::nvlink_count);
  if (!count) return kNotSupported;
  return link < static_cast<unsigned>(*count) ? kSuccess : kInvalidArgument;
}

bool has_nvlink(const sim::GpuView& gpu) { return sim::at(gpu.readings, Field::nvlink_count).value_or(0) > 0; }

Return remote(Device device, unsigned link, PciInfo* info) {
  if (info == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = check_link(device, link, target); code != kSuccess) return code;
  std::memset(info, 0, sizeof *info);
  const auto live = fleet();
  const std::size_t peers = target.fleet->gpus.size() - 1;
  if (live->spec().nvswitch || peers == 0) {
    // An NVSwitch: one of a few, by link.
    const std::string id = "00000000:" + std::to_string(80 + link % 4) + ":00.0";
    std::memcpy(info->bus_id, id.data(), id.size());
    std::memcpy(info->bus_id_legacy, id.data() + 4, id.size() - 4);
    info->bus = 0x80 + link % 4;
    info->pci_device_id = 0x22A310DE;
    return kSuccess;
  }
  std::uint32_t peer = link % static_cast<std::uint32_t>(peers);
  if (peer >= target.handle.gpu) ++peer;
  return nvmlDeviceGetPciInfo_v3(to_device({peer, std::nullopt}), info);
}

}  // namespace

extern "C" {

Return nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  if (const Return code = number(device, Field::mig_enabled, current); code != kSuccess) return code;
  return number(device, Field::mig_pending, pending);
}

Return nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is_mig) {
  if (is_mig == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  *is_mig = target.instance != nullptr ? 1 : 0;
  return kSuccess;
}

Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  *count = static_cast<unsigned>(target.gpu->spec->model.mig_instances);
  return kSuccess;
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* mig) {
  if (mig == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (!target.gpu->mig) return kNotSupported;
  if (index >= target.gpu->instances.size()) return kNotFound;
  *mig = to_device({target.handle.gpu, target.gpu->instances[index].slot});
  return kSuccess;
}

Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device* device) {
  if (device == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(mig, target); code != kSuccess) return code;
  if (target.instance == nullptr) return kInvalidArgument;
  *device = to_device({target.handle.gpu, std::nullopt});
  return kSuccess;
}

Return nvmlDeviceGetGpuInstanceId(Device device, unsigned* id) {
  return instance_id(device, id, &sim::MigInstance::gpu_instance);
}
Return nvmlDeviceGetComputeInstanceId(Device device, unsigned* id) {
  return instance_id(device, id, &sim::MigInstance::compute_instance);
}

Return nvmlDeviceGetAttributes_v2(Device device, DeviceAttributes* out) {
  if (out == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.instance == nullptr) return kNotSupported;
  *out = {};
  out->multiprocessors = static_cast<unsigned>(target.instance->multiprocessors);
  out->copy_engines = static_cast<unsigned>(target.instance->gpu_slices);
  out->gpu_instance_slices = static_cast<unsigned>(target.instance->gpu_slices);
  out->compute_instance_slices = static_cast<unsigned>(target.instance->compute_slices);
  out->memory_mib = static_cast<unsigned long long>(target.instance->memory_mib);
  return kSuccess;
}

Return nvmlDeviceGetAttributes(Device device, DeviceAttributes* out) { return nvmlDeviceGetAttributes_v2(device, out); }

Return nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int* level) {
  if (level == nullptr) return kInvalidArgument;
  Target one;
  Target two;
  if (const Return code = resolve(a, one); code != kSuccess) return code;
  if (const Return code = resolve(b, two); code != kSuccess) return code;
  const bool same_node = sim::at(one.gpu->readings, Field::numa_node) == sim::at(two.gpu->readings, Field::numa_node);
  *level = same_node ? kTopologyNode : kTopologySystem;
  if (same_node && one.handle.gpu / 2 == two.handle.gpu / 2) *level = kTopologyMultiple;
  if (one.handle.gpu == two.handle.gpu) *level = kTopologyInternal;
  return kSuccess;
}

Return nvmlDeviceGetP2PStatus(Device a, Device b, int caps, int* status) {
  if (status == nullptr) return kInvalidArgument;
  Target one;
  Target two;
  if (const Return code = resolve(a, one); code != kSuccess) return code;
  if (const Return code = resolve(b, two); code != kSuccess) return code;
  const bool nvlink = has_nvlink(*one.gpu) && has_nvlink(*two.gpu) && one.handle.gpu != two.handle.gpu;
  *status = (caps == kP2pCapsNvLink ? nvlink : one.gpu->spec->model.ecc) ? kP2pOk : kP2pNotSupported;
  return kSuccess;
}

Return nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  if (active == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = check_link(device, link, target); code != kSuccess) return code;
  *active = (target.gpu->nvlinks_down >> link & 1U) != 0 ? 0 : 1;
  return kSuccess;
}

Return nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned* version) {
  Target target;
  if (const Return code = check_link(device, link, target); code != kSuccess) return code;
  return number(device, Field::nvlink_version, version);
}

Return nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link, PciInfo* info) {
  return remote(device, link, info);
}
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* info) {
  return remote(device, link, info);
}

}  // extern "C"
}  // namespace gpuwarden::nvml
