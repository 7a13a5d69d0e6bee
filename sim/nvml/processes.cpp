// SPDX-License-Identifier: Apache-2.0
// Who runs on a GPU, in every layout that drivers have had.
#include <vector>

#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;

enum class Kind { compute, graphics, mps };

/// The processes of a GPU; of a MIG instance only its own.
Return list(Device device, Kind kind, std::vector<sim::ProcessView>& processes) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  for (const sim::ProcessView& process : target.gpu->processes) {
    const bool wanted = (kind == Kind::compute && process.compute) || (kind == Kind::graphics && process.graphics) ||
                        (kind == Kind::mps && process.mps);
    const bool here = target.instance == nullptr || process.gpu_instance == target.instance->gpu_instance;
    if (wanted && here) processes.push_back(process);
  }
  return kSuccess;
}

unsigned long long memory_of(const sim::ProcessView& process) {
  return process.memory_bytes ? *process.memory_bytes : kMemoryNotAvailable;
}

void fill(ProcessInfoV1& out, const sim::ProcessView& process) {
  out = {static_cast<unsigned>(process.pid), memory_of(process)};
}

void fill(ProcessInfoV2& out, const sim::ProcessView& process) {
  out = {static_cast<unsigned>(process.pid), memory_of(process), process.gpu_instance.value_or(kNoInstance),
         process.gpu_instance ? 0 : kNoInstance};
}

/// NVML's way with lists: too small a buffer gets the count it should have had.
template <class Entry>
Return give(Device device, Kind kind, unsigned* count, Entry* entries) {
  if (count == nullptr) return kInvalidArgument;
  std::vector<sim::ProcessView> processes;
  if (const Return code = list(device, kind, processes); code != kSuccess) return code;
  const unsigned room = *count;
  *count = static_cast<unsigned>(processes.size());
  if (room < processes.size() || (entries == nullptr && !processes.empty())) return kInsufficientSize;
  for (std::size_t i = 0; i < processes.size(); ++i) fill(entries[i], processes[i]);
  return kSuccess;
}

}  // namespace

extern "C" {

Return nvmlDeviceGetComputeRunningProcesses(Device d, unsigned* n, ProcessInfoV1* e) {
  return give(d, Kind::compute, n, e);
}
Return nvmlDeviceGetComputeRunningProcesses_v2(Device d, unsigned* n, ProcessInfoV2* e) {
  return give(d, Kind::compute, n, e);
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned* n, ProcessInfoV2* e) {
  return give(d, Kind::compute, n, e);
}
Return nvmlDeviceGetGraphicsRunningProcesses(Device d, unsigned* n, ProcessInfoV1* e) {
  return give(d, Kind::graphics, n, e);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, unsigned* n, ProcessInfoV2* e) {
  return give(d, Kind::graphics, n, e);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, unsigned* n, ProcessInfoV2* e) {
  return give(d, Kind::graphics, n, e);
}
Return nvmlDeviceGetMPSComputeRunningProcesses(Device d, unsigned* n, ProcessInfoV1* e) {
  return give(d, Kind::mps, n, e);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v2(Device d, unsigned* n, ProcessInfoV2* e) {
  return give(d, Kind::mps, n, e);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device d, unsigned* n, ProcessInfoV2* e) {
  return give(d, Kind::mps, n, e);
}

Return nvmlDeviceGetRunningProcessDetailList(Device device, ProcessDetailList* out) {
  if (out == nullptr || out->mode > 2) return kInvalidArgument;
  if (out->version != kProcessDetailListV1) return kArgumentVersionMismatch;
  static constexpr Kind kKinds[] = {Kind::compute, Kind::graphics, Kind::mps};
  std::vector<sim::ProcessView> processes;
  if (const Return code = list(device, kKinds[out->mode], processes); code != kSuccess) return code;
  const unsigned room = out->count;
  out->count = static_cast<unsigned>(processes.size());
  if (room < processes.size() || (out->entries == nullptr && !processes.empty())) return kInsufficientSize;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    out->entries[i] = {static_cast<unsigned>(processes[i].pid), memory_of(processes[i]),
                       processes[i].gpu_instance.value_or(kNoInstance), kNoInstance, 0};
  }
  return kSuccess;
}

Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilizationSample* out, unsigned* count,
                                       unsigned long long last_seen) {
  if (count == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.gpu->mig) return kNotSupported;
  // Fleet time 0 still lies after a client's "everything so far".
  const auto now = static_cast<unsigned long long>(target.fleet->time.count() + 1) * 1000;
  std::vector<ProcessUtilizationSample> samples;
  for (const sim::ProcessView& process : target.gpu->processes) {
    if (process.utilization == 0) continue;
    samples.push_back({static_cast<unsigned>(process.pid), now, process.utilization, process.utilization / 2, 0, 0});
  }
  if (samples.empty() || now <= last_seen) {
    *count = 0;
    return kNotFound;
  }
  const unsigned room = *count;
  *count = static_cast<unsigned>(samples.size());
  if (room < samples.size() || out == nullptr) return kInsufficientSize;
  for (std::size_t i = 0; i < samples.size(); ++i) out[i] = samples[i];
  return kSuccess;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
