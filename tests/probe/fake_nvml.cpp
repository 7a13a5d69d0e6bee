// SPDX-License-Identifier: Apache-2.0
// An NVML of $FAKE_NVML_GPUS GPUs (none) that a test steers.
//
// By files in $FAKE_NVML: "replaced" breaks the sessions that are open, "mismatch" keeps new ones from opening, "lost"
// loses GPU 0 while its events are waited for; the others then tell of changes of their MIG instances.
//
// By $FAKE_NVML_FAULTS, "FUNCTION[:GPU]=FAULT;...": the function hangs ("hang"), hangs at work ("spin"), dies by
// SIGSEGV
// ("crash"), leaves the process ("exit"), gives an NVML code (a number), or nonsense ("nonsense"). Every call of a
// function with a fault is noted in $FAKE_NVML_LOG. GPU i stands on bus 0x10 + stride * i + offset, where
// $FAKE_NVML_PLACES is "stride,offset" (1,0).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

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

std::string_view setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void note(std::string_view what) {
  const std::string file(setting("FAKE_NVML_LOG"));
  if (file.empty()) return;
  std::FILE* log = std::fopen(file.c_str(), "a");
  std::fprintf(log, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::fclose(log);
}

/// The fault of a call of `key` ("nvmlInit_v2", "nvmlDeviceGetUUID:1"); empty: none.
std::string_view fault_of(const std::string& key) {
  std::string_view rest = setting("FAKE_NVML_FAULTS");
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (entry.starts_with(key + "=")) return entry.substr(key.size() + 1);
  }
  return "";
}

/// Does what the fault wants; the code to return where there is one. "nonsense" is the function's own business.
std::optional<Return> suffer(const std::string& key) {
  const std::string_view fault = fault_of(key);
  if (fault.empty()) return std::nullopt;
  note(key);
  while (fault == "hang") ::pause();
  volatile bool at_work = true;
  while (fault == "spin" && at_work) continue;
  if (fault == "crash") {
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  }
  if (fault == "exit") ::_exit(3);
  if (fault == "nonsense") return std::nullopt;
  return static_cast<Return>(std::atoi(std::string(fault).c_str()));
}

std::string key_of(const char* function, Device device) {
  return std::string(function) + ":" + std::to_string(index_of(device));
}
std::string key_of(const char* function, unsigned index) { return std::string(function) + ":" + std::to_string(index); }

}  // namespace

#define GPUWARDEN_FAKE(...) \
  if (const auto code = suffer(__VA_ARGS__)) return *code

extern "C" {

Return nvmlInit_v2() {
  GPUWARDEN_FAKE(__func__);
  g_opened_after = has("replaced");
  return has("mismatch") ? kLibRmVersionMismatch : kSuccess;
}
const char* nvmlErrorString(Return) { return "\x1b[31mred\x1b[0m alert"; }
Return nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "%s", g_opened_after ? "580.65.06" : "550.54.15");
  return kSuccess;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  GPUWARDEN_FAKE(__func__);
  const char* gpus = std::getenv("FAKE_NVML_GPUS");
  *count = gpus != nullptr ? static_cast<unsigned>(std::atoi(gpus)) : 0;
  if (fault_of(__func__) == "nonsense") *count = ~0U;
  return has("replaced") && !g_opened_after ? kLibRmVersionMismatch : kSuccess;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  GPUWARDEN_FAKE(key_of(__func__, index));
  *device = device_of(index);
  return kSuccess;
}
Return nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  GPUWARDEN_FAKE(key_of(__func__, device));
  const bool nonsense = fault_of(key_of(__func__, device)) == "nonsense";
  std::snprintf(text, length, "GPU-%d", nonsense ? 0 : static_cast<int>(index_of(device)));
  return kSuccess;
}
Return nvmlDeviceGetName(Device device, char* text, unsigned length) {
  GPUWARDEN_FAKE(key_of(__func__, device));
  std::snprintf(text, length, "NVIDIA H100 80GB HBM3");
  return kSuccess;
}
Return nvmlDeviceGetSerial(Device device, char* text, unsigned length) {
  GPUWARDEN_FAKE(key_of(__func__, device));
  std::snprintf(text, length, "16%d", static_cast<int>(index_of(device)));
  return kSuccess;
}
Return nvmlDeviceGetIndex(Device device, unsigned* index) {
  *index = static_cast<unsigned>(index_of(device));
  return kSuccess;
}
Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  if (has("lost") && index_of(device) == 0) return kGpuIsLost;
  GPUWARDEN_FAKE(key_of(__func__, device));
  unsigned stride = 1;
  unsigned offset = 0;
  std::sscanf(std::string(setting("FAKE_NVML_PLACES")).c_str(), "%u,%u", &stride, &offset);
  *pci = {};
  pci->bus = 0x10 + stride * static_cast<unsigned>(index_of(device)) + offset;
  pci->pci_device_id = 0x233010DE;
  return kSuccess;
}
Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  GPUWARDEN_FAKE(key_of(__func__, device));
  constexpr unsigned long long kTotal = 80ULL << 30U;
  *memory = {kTotal, kTotal - (4ULL << 20U), 4ULL << 20U};
  if (fault_of(key_of(__func__, device)) == "nonsense") *memory = {1000, 1000, 0};
  return kSuccess;
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfoV2*) {
  GPUWARDEN_FAKE(key_of(__func__, device));
  *count = fault_of(key_of(__func__, device)) == "nonsense" ? ~0U : 0;
  return kSuccess;
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device, unsigned* count, ProcessInfoV2*) {
  *count = 0;
  return kSuccess;
}
Return nvmlDeviceGetTopologyCommonAncestor(Device a, Device, int* level) {
  GPUWARDEN_FAKE(key_of(__func__, a));
  *level = kTopologyNode;
  return kSuccess;
}
Return nvmlDeviceGetPcieThroughput(Device device, int, unsigned* kilobytes) {
  GPUWARDEN_FAKE(key_of(__func__, device));
  *kilobytes = 0;
  return kSuccess;
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
