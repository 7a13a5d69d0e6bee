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

/// What a list function said: the code, and the entries' bytes where it is success.
struct Listing {
  Return code = nvml::kFunctionNotFound;
  std::vector<Entry> entries;
};

/// The driver or the GPU has no such list; anything else but success is a list that could not be read.
bool has_no_list(Return code) { return code == nvml::kFunctionNotFound || code == nvml::kNotSupported; }

std::vector<Entry> decode(const std::vector<unsigned char>& buffer, unsigned count, std::size_t entry_size) {
  std::vector<Entry> entries;
  for (unsigned i = 0; i < count; ++i) {
    nvml::ProcessInfoV2 raw{0, nvml::kMemoryNotAvailable, nvml::kNoInstance, nvml::kNoInstance};
    std::memcpy(&raw, buffer.data() + i * entry_size, std::min(entry_size, sizeof raw));
    entries.push_back({raw.pid, raw.used_memory, raw.gpu_instance, raw.compute_instance});
  }
  return entries;
}

/// Calls a list function with a growing buffer of `entry_size`-byte entries. The count that the function needs may
/// change between two calls, so it is asked a few times with room to spare.
template <class Raw>
Listing fetch(Return (*function)(Device, unsigned*, Raw*), Device device, std::size_t entry_size) {
  Listing listing;
  if (function == nullptr) return listing;
  unsigned room = 32;
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::vector<unsigned char> buffer(room * entry_size);
    unsigned count = room;
    listing.code = function(device, &count, reinterpret_cast<Raw*>(buffer.data()));
    if (listing.code == nvml::kSuccess && count > room) listing.code = nvml::kUnknown;
    if (listing.code == nvml::kSuccess) listing.entries = decode(buffer, count, entry_size);
    if (listing.code != nvml::kInsufficientSize) return listing;
    room = std::clamp(count, room, 65536U) + 16;
  }
  return listing;
}

/// Drivers 535.43 to 535.86 had 32-byte entries in _v3; they are told by which functions they have (as nvitop does).
std::size_t entry_size_of_v3(const Functions& nvml) {
  const bool early =
      nvml.nvmlDeviceGetConfComputeMemSizeInfo != nullptr && nvml.nvmlDeviceGetRunningProcessDetailList == nullptr;
  return early ? sizeof(nvml::ProcessInfoEarly535) : sizeof(nvml::ProcessInfoV2);
}

using V1 = Return (*)(Device, unsigned*, nvml::ProcessInfoV1*);
using V2 = Return (*)(Device, unsigned*, nvml::ProcessInfoV2*);

/// In the newest layout that works. Where none does, the first failure that is more than a missing function counts.
Listing list(const Functions& nvml, Device device, V2 v3, V2 v2, V1 v1) {
  Listing listing = fetch(v3, device, entry_size_of_v3(nvml));
  const auto or_else = [&](Listing older) {
    if (older.code == nvml::kSuccess || has_no_list(listing.code)) listing = std::move(older);
  };
  if (listing.code != nvml::kSuccess) or_else(fetch(v2, device, sizeof(nvml::ProcessInfoV2)));
  if (listing.code != nvml::kSuccess) or_else(fetch(v1, device, sizeof(nvml::ProcessInfoV1)));
  return listing;
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

struct Listings {
  Listing compute;
  Listing graphics;
  Listing mps;
};

Listings list_all(const Functions& nvml, Device device) {
  return {list(nvml, device, nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2,
               nvml.nvmlDeviceGetComputeRunningProcesses),
          list(nvml, device, nvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
               nvml.nvmlDeviceGetGraphicsRunningProcesses_v2, nvml.nvmlDeviceGetGraphicsRunningProcesses),
          list(nvml, device, nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
               nvml.nvmlDeviceGetMPSComputeRunningProcesses_v2, nvml.nvmlDeviceGetMPSComputeRunningProcesses)};
}

/// False where the list of computing processes is not told. The others only add to it.
bool take(const Listings& listings, facts::GpuRecord& record) {
  if (listings.compute.code != nvml::kSuccess) return false;
  if (!record.processes) record.processes.emplace();
  auto& processes = *record.processes;
  merge(processes, listings.compute.entries, ListKind::compute);
  merge(processes, listings.mps.entries, ListKind::mps);
  merge(processes, listings.graphics.entries, ListKind::graphics);
  return true;
}

/// Whoever may not see all of a divided GPU may see its instances.
bool read_by_instances(const Functions& nvml, Device device, facts::GpuRecord& record) {
  if (record.mig_devices.empty()) return false;
  return std::ranges::all_of(record.mig_devices, [&](const facts::MigDevice& mig) {
    Device handle = nullptr;
    if (call(nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, mig.index, &handle) != nvml::kSuccess) return false;
    Listings listings = list_all(nvml, handle);
    for (Listing* listing : {&listings.compute, &listings.graphics, &listings.mps}) {
      for (Entry& entry : listing->entries) {
        entry.gpu_instance = mig.gpu_instance.value_or(nvml::kNoInstance);
        entry.compute_instance = mig.compute_instance.value_or(nvml::kNoInstance);
      }
    }
    return take(listings, record);
  });
}

}  // namespace

void read_processes(const Functions& nvml, Device device, facts::GpuRecord& record) {
  const Listings listings = list_all(nvml, device);
  if (take(listings, record) || has_no_list(listings.compute.code)) return;
  if (listings.compute.code == nvml::kNoPermission && read_by_instances(nvml, device, record)) return;
  record.processes.reset();
  record.processes_unreadable = true;
}

}  // namespace gpuwarden::probe
