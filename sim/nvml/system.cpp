// SPDX-License-Identifier: Apache-2.0
// Library, system, and the ways to a handle.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "sim/core/identity.hpp"
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;

constexpr std::array<std::pair<Return, const char*>, 18> kErrorTexts{{
    {kSuccess, "Success"},
    {kUninitialized, "Uninitialized"},
    {kInvalidArgument, "Invalid Argument"},
    {kNotSupported, "Not Supported"},
    {kNoPermission, "Insufficient Permissions"},
    {kNotFound, "Not Found"},
    {kInsufficientSize, "Insufficient Size"},
    {kDriverNotLoaded, "Driver Not Loaded"},
    {kTimeout, "Timeout"},
    {kFunctionNotFound, "Function Not Found"},
    {kGpuIsLost, "GPU is lost"},
    {kResetRequired, "GPU requires reset"},
    {kLibRmVersionMismatch, "Driver/library version mismatch"},
    {kInUse, "In use by another client"},
    {kMemory, "Insufficient Memory"},
    {kNoData, "No data"},
    {kInsufficientResources, "Insufficient Resources"},
    {kArgumentVersionMismatch, "Argument version mismatch"},
}};

Return system_text(const std::string& text, char* buffer, unsigned length) {
  if (const Return code = require_init(); code != kSuccess) return code;
  return copy_text(text, buffer, length);
}

Return none(unsigned* count) {
  if (const Return code = require_init(); code != kSuccess) return code;
  if (count == nullptr) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}

/// The handle of the first GPU that `is_it` accepts.
template <class IsIt>
Return find_gpu(Device* device, IsIt is_it) {
  if (const Return code = require_init(); code != kSuccess) return code;
  const auto live = fleet();
  const auto seen = live ? live->view() : fail(ErrorCode::not_found, "");
  if (!seen) return kUnknown;
  const sim::FleetView& view = **seen;
  if (device == nullptr) return kInvalidArgument;
  for (std::uint32_t i = 0; i < view.gpus.size(); ++i) {
    if (!is_it(view.gpus[i], i)) continue;
    if (const Return code = trouble_of(view.gpus[i]); code != kSuccess) return code;
    *device = to_device({i, std::nullopt});
    return kSuccess;
  }
  return kNotFound;
}

Return handle_by_bus_id(const char* bus_id, Device* device) {
  if (bus_id == nullptr) return kInvalidArgument;
  const auto wanted = sim::parse_bus_id(bus_id);
  if (!wanted) return kNotFound;
  return find_gpu(device, [&](const sim::GpuView& gpu, std::uint32_t) {
    const auto own = sim::parse_bus_id(gpu.spec->bus_id);
    return own && own->domain == wanted->domain && own->bus == wanted->bus && own->device == wanted->device;
  });
}

}  // namespace

extern "C" {

Return nvmlInit() { return initialise(0); }
Return nvmlInit_v2() { return initialise(0); }
Return nvmlInitWithFlags(unsigned flags) { return initialise(flags); }
Return nvmlShutdown() { return server::shutdown(); }

const char* nvmlErrorString(Return code) {
  const auto* const found = std::ranges::find(kErrorTexts, code, &std::pair<Return, const char*>::first);
  return found == kErrorTexts.end() ? "Unknown Error" : found->second;
}

// Real NVML answers this one before nvmlInit, too.
Return nvmlSystemGetNVMLVersion(char* buffer, unsigned length) {
  const auto live = fleet();
  if (!live) return kUnknown;
  const std::string cuda_major(split(live->spec().cuda, '.')[0]);
  return copy_text(cuda_major + "." + live->spec().driver, buffer, length);
}

Return nvmlSystemGetDriverVersion(char* buffer, unsigned length) {
  const auto live = fleet();
  return live ? system_text(live->spec().driver, buffer, length) : kUninitialized;
}

Return nvmlSystemGetCudaDriverVersion(int* version) {
  if (const Return code = require_init(); code != kSuccess) return code;
  if (version == nullptr) return kInvalidArgument;
  const auto live = fleet();
  const auto parts = split(live->spec().cuda, '.');
  *version = static_cast<int>(parse_integer(parts[0]).value_or(0) * 1000 + parse_integer(parts[1]).value_or(0) * 10);
  return kSuccess;
}

Return nvmlSystemGetCudaDriverVersion_v2(int* version) { return nvmlSystemGetCudaDriverVersion(version); }

Return nvmlSystemGetProcessName(unsigned pid, char* buffer, unsigned length) {
  if (const Return code = require_init(); code != kSuccess) return code;
  const auto live = fleet();
  for (const sim::GpuSpec& gpu : live->spec().gpus) {
    for (const sim::ProcessSpec& process : gpu.processes) {
      if (process.pid == static_cast<std::int32_t>(pid)) return copy_text(process.command, buffer, length);
    }
  }
  auto name = read_file("/proc/" + std::to_string(pid) + "/cmdline");
  if (!name || name->empty()) return kNotFound;
  return copy_text(name->substr(0, name->find('\0')), buffer, length);
}

Return nvmlDeviceGetCount_v2(unsigned* count) {
  if (const Return code = require_init(); code != kSuccess) return code;
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(fleet()->spec().gpus.size());
  return kSuccess;
}
Return nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

// S-class units, and GPUs that are kept out of use: there are none.
Return nvmlUnitGetCount(unsigned* count) { return none(count); }
Return nvmlGetExcludedDeviceCount(unsigned* count) { return none(count); }

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  const Return code = find_gpu(device, [&](const sim::GpuView&, std::uint32_t i) { return i == index; });
  return code == kNotFound ? kInvalidArgument : code;
}
Return nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

Return nvmlDeviceGetHandleBySerial(const char* serial, Device* device) {
  if (serial == nullptr) return kInvalidArgument;
  return find_gpu(device, [&](const sim::GpuView& gpu, std::uint32_t) {
    return !gpu.spec->serial.empty() && gpu.spec->serial == serial;
  });
}

Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  if (uuid == nullptr) return kInvalidArgument;
  std::optional<Handle> mig;
  const Return code = find_gpu(device, [&](const sim::GpuView& gpu, std::uint32_t index) {
    const auto found = std::ranges::find(gpu.instances, std::string(uuid), &sim::MigInstance::uuid);
    if (found != gpu.instances.end()) mig = Handle{index, found->slot};
    return gpu.spec->uuid == uuid || mig;
  });
  if (code == kSuccess && mig) *device = to_device(*mig);
  return code;
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) { return handle_by_bus_id(bus_id, device); }
Return nvmlDeviceGetHandleByPciBusId(const char* bus_id, Device* device) { return handle_by_bus_id(bus_id, device); }

}  // extern "C"
}  // namespace gpuwarden::nvml
