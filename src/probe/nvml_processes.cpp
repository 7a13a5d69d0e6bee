// SPDX-License-Identifier: Apache-2.0
// NVML's process lists, in whichever layout the driver has.
#include <algorithm>
#include <cstring>
#include <vector>

#include "probe/nvml_device.hpp"

namespace gpuwarden::probe {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::Return;

struct Entry {
  unsigned pid = 0;
  unsigned long long memory = nvml::kMemoryNotAvailable;
  unsigned gpu_instance = nvml::kNoInstance;
  unsigned compute_instance = nvml::kNoInstance;
};

/// Calls a list function with a growing buffer of `entry_size`-byte entries. The count that the function needs may
/// change between two calls, so it is asked a few times with room to spare.
template <class Raw>
std::optional<std::vector<unsigned char>> fetch(Return (*function)(Device, unsigned*, Raw*), Device device,
                                                std::size_t entry_size, unsigned& count) {
  if (function == nullptr) return std::nullopt;
  unsigned room = 32;
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::vector<unsigned char> buffer(room * entry_size);
    count = room;
    const Return code = function(device, &count, reinterpret_cast<Raw*>(buffer.data()));
    if (code == nvml::kSuccess && count <= room) return buffer;
    if (code != nvml::kInsufficientSize) return std::nullopt;
    room = std::clamp(count, room, 65536U) + 16;
  }
  return std::nullopt;
}

/// Drivers 535.43 to 535.86 had 32-byte entries in _v3; they are told by which functions they have (as nvitop does).
std::size_t entry_size_of_v3(const Functions& nvml) {
  const bool early =
      nvml.nvmlDeviceGetConfComputeMemSizeInfo != nullptr && nvml.nvmlDeviceGetRunningProcessDetailList == nullptr;
  return early ? sizeof(nvml::ProcessInfoEarly535) : sizeof(nvml::ProcessInfoV2);
}

std::vector<Entry> decode(const std::vector<unsigned char>& buffer, unsigned count, std::size_t entry_size) {
  std::vector<Entry> entries;
  for (unsigned i = 0; i < count; ++i) {
    nvml::ProcessInfoV2 raw{0, nvml::kMemoryNotAvailable, nvml::kNoInstance, nvml::kNoInstance};
    std::memcpy(&raw, buffer.data() + i * entry_size, std::min(entry_size, sizeof raw));
    entries.push_back({raw.pid, raw.used_memory, raw.gpu_instance, raw.compute_instance});
  }
  return entries;
}

using V1 = Return (*)(Device, unsigned*, nvml::ProcessInfoV1*);
using V2 = Return (*)(Device, unsigned*, nvml::ProcessInfoV2*);

std::optional<std::vector<Entry>> list(const Functions& nvml, Device device, V2 v3, V2 v2, V1 v1) {
  unsigned count = 0;
  if (const auto buffer = fetch(v3, device, entry_size_of_v3(nvml), count))
    return decode(*buffer, count, entry_size_of_v3(nvml));
  if (const auto buffer = fetch(v2, device, sizeof(nvml::ProcessInfoV2), count))
    return decode(*buffer, count, sizeof(nvml::ProcessInfoV2));
  if (const auto buffer = fetch(v1, device, sizeof(nvml::ProcessInfoV1), count))
    return decode(*buffer, count, sizeof(nvml::ProcessInfoV1));
  return std::nullopt;
}

/// Adds entries to the list; a pid that is there already (compute and graphics) is one process.
enum class ListKind { compute, mps, graphics };
void merge(std::vector<facts::GpuProcess>& processes, const std::vector<Entry>& entries, ListKind kind) {
  for (const Entry& entry : entries) {
    const Pid pid{static_cast<std::int32_t>(entry.pid)};
    const auto instance = entry.gpu_instance == nvml::kNoInstance ? std::nullopt : std::optional(entry.gpu_instance);
    auto found = std::ranges::find_if(
        processes, [&](const facts::GpuProcess& known) { return known.pid == pid && known.gpu_instance == instance; });
    if (found == processes.end()) {
      found = processes.insert(processes.end(), facts::GpuProcess{.pid = pid, .gpu_instance = instance});
      if (entry.compute_instance != nvml::kNoInstance) found->compute_instance = entry.compute_instance;
    }
    (kind == ListKind::graphics ? found->graphics : found->compute) = true;
    found->mps = found->mps || kind == ListKind::mps;
    if (entry.memory != nvml::kMemoryNotAvailable)
      found->memory = std::max(found->memory.value_or(Bytes(0)), Bytes(entry.memory));
  }
}

}  // namespace

void read_processes(const Functions& nvml, Device device, facts::GpuRecord& record) {
  const auto compute = list(nvml, device, nvml.nvmlDeviceGetComputeRunningProcesses_v3,
                            nvml.nvmlDeviceGetComputeRunningProcesses_v2, nvml.nvmlDeviceGetComputeRunningProcesses);
  const auto graphics = list(nvml, device, nvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
                             nvml.nvmlDeviceGetGraphicsRunningProcesses_v2, nvml.nvmlDeviceGetGraphicsRunningProcesses);
  const auto mps = list(nvml, device, nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
                        nvml.nvmlDeviceGetMPSComputeRunningProcesses_v2, nvml.nvmlDeviceGetMPSComputeRunningProcesses);
  if (!compute && !graphics) return;
  auto& processes = record.processes.emplace();
  if (compute) merge(processes, *compute, ListKind::compute);
  if (mps) merge(processes, *mps, ListKind::mps);
  if (graphics) merge(processes, *graphics, ListKind::graphics);
}

}  // namespace gpuwarden::probe
