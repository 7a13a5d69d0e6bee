// SPDX-License-Identifier: Apache-2.0
// An NVML of $FAKE_NVML_GPUS GPUs (none) that a test steers by making files in $FAKE_NVML: "replaced" breaks the
// sessions that are open, "mismatch" keeps new ones from opening, "lost" loses GPU 0 while its events are waited for;
// the others then tell of changes of their MIG instances.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "nvidia/nvml_abi.hpp"

namespace gpuwarden::nvml {
namespace {

bool g_opened_after = false;          // NOLINT(readability-identifier-naming)
std::array<bool, 8> g_watched{};      // NOLINT(readability-identifier-naming)
constexpr std::size_t kHandle = 256;  // GPU 0's, which must not be null

bool has(const char* name) {
  const char* folder = std::getenv("FAKE_NVML");
  return folder != nullptr && ::access((std::string(folder) + "/" + name).c_str(), F_OK) == 0;
}

std::size_t index_of(Device device) { return reinterpret_cast<std::size_t>(device) - kHandle; }
Device device_of(std::size_t index) { return reinterpret_cast<Device>(index + kHandle); }

}  // namespace

extern "C" {

Return nvmlInit_v2() {
  g_opened_after = has("replaced");
  return has("mismatch") ? kLibRmVersionMismatch : kSuccess;
}
Return nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "%s", g_opened_after ? "580.65.06" : "550.54.15");
  return kSuccess;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  const char* gpus = std::getenv("FAKE_NVML_GPUS");
  *count = gpus != nullptr ? static_cast<unsigned>(std::atoi(gpus)) : 0;
  return has("replaced") && !g_opened_after ? kLibRmVersionMismatch : kSuccess;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = device_of(index);
  return kSuccess;
}
Return nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  std::snprintf(text, length, "GPU-%d", static_cast<int>(index_of(device)));
  return kSuccess;
}
Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo*) {
  return has("lost") && index_of(device) == 0 ? kGpuIsLost : kSuccess;
}
Return nvmlEventSetCreate(EventSet* set) {
  g_watched.fill(false);
  *set = reinterpret_cast<EventSet>(kHandle);
  return kSuccess;
}
Return nvmlEventSetFree(EventSet) { return kSuccess; }
Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet) {
  g_watched.at(index_of(device)) = (types & kEventMigConfigChange) != 0;
  return kSuccess;
}
Return nvmlEventSetWait_v2(EventSet, EventData* event, unsigned milliseconds) {
  if (g_watched[0] && has("lost")) return kGpuIsLost;
  for (std::size_t i = 0; i < g_watched.size(); ++i) {
    if (!g_watched[i]) continue;
    *event = {device_of(i), kEventMigConfigChange, 0, kNoInstance, kNoInstance};
    g_watched[i] = false;
    return kSuccess;
  }
  ::usleep(milliseconds * 1000);
  return kTimeout;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
