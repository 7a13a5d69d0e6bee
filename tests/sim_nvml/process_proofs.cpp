// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;

/// "pid MiB" of each process; our own pid reads "me".
template <class Entry>
std::string tell(Return code, const std::array<Entry, 8>& entries, unsigned count) {
  if (code != kSuccess) return say(code);
  std::string all = std::to_string(count);
  for (unsigned i = 0; i < count; ++i) {
    const bool me = entries[i].pid == static_cast<unsigned>(::getpid());
    all += fmt::format(", {} {}", me ? "me" : std::to_string(entries[i].pid), entries[i].used_memory >> 20U);
  }
  return all;
}

template <auto function, class Entry>
std::string list(const Nvml& nvml, Device device) {
  std::array<Entry, 8> entries{};
  unsigned count = entries.size();
  const Return code = (nvml.*function)(device, &count, entries.data());
  return tell(code, entries, count);
}

std::string details(const Nvml& nvml, Device device) {
  std::array<ProcessDetail, 8> entries{};
  ProcessDetailList all{.version = kProcessDetailListV1, .mode = 0, .count = entries.size(), .entries = entries.data()};
  const Return code = nvml.nvmlDeviceGetRunningProcessDetailList(device, &all);
  return tell(code, entries, all.count);
}

std::string shares(const Nvml& nvml, Device device) {
  std::array<ProcessUtilizationSample, 8> samples{};
  unsigned count = samples.size();
  const Return code = nvml.nvmlDeviceGetProcessUtilization(device, samples.data(), &count, 0);
  if (code != kSuccess) return say(code);
  std::string all;
  for (unsigned i = 0; i < count; ++i) all += fmt::format("{} ", samples[i].sm);
  return all;
}

Json declare(const char* type) {
  return {{"op", "declare"},
          {"pid", ::getpid()},
          {"gpus", {"GPU-11111111-2222-3333-4444-555555555555"}},
          {"memory_bytes", 300ULL << 20U},
          {"utilization_percent", 25},
          {"type", type}};
}

}  // namespace

std::vector<Proof> process_proofs() {
  using V1 = ProcessInfoV1;
  using V2 = ProcessInfoV2;
  const std::string scripted = "1, 4194001 1000";
  const std::string both = "2, 4194001 1000, me 300";
  const std::string mine = "1, me 300";
  return {
      {"nvmlDeviceGetComputeRunningProcesses", list<&F::nvmlDeviceGetComputeRunningProcesses, V1>, scripted,
       declare("C"), both},
      {"nvmlDeviceGetComputeRunningProcesses_v2", list<&F::nvmlDeviceGetComputeRunningProcesses_v2, V2>, scripted,
       declare("C"), both},
      {"nvmlDeviceGetComputeRunningProcesses_v3", list<&F::nvmlDeviceGetComputeRunningProcesses_v3, V2>, scripted,
       declare("C"), both},
      {"nvmlDeviceGetGraphicsRunningProcesses", list<&F::nvmlDeviceGetGraphicsRunningProcesses, V1>, "0", declare("G"),
       mine},
      {"nvmlDeviceGetGraphicsRunningProcesses_v2", list<&F::nvmlDeviceGetGraphicsRunningProcesses_v2, V2>, "0",
       declare("G"), mine},
      {"nvmlDeviceGetGraphicsRunningProcesses_v3", list<&F::nvmlDeviceGetGraphicsRunningProcesses_v3, V2>, "0",
       declare("G"), mine},
      // A fleet has no MPS server: the list is empty, as it is on any machine without one.
      {"nvmlDeviceGetMPSComputeRunningProcesses", list<&F::nvmlDeviceGetMPSComputeRunningProcesses, V1>, "0",
       fault("lost"), "error 15"},
      {"nvmlDeviceGetMPSComputeRunningProcesses_v2", list<&F::nvmlDeviceGetMPSComputeRunningProcesses_v2, V2>, "0",
       fault("lost"), "error 15"},
      {"nvmlDeviceGetMPSComputeRunningProcesses_v3", list<&F::nvmlDeviceGetMPSComputeRunningProcesses_v3, V2>, "0",
       fault("lost"), "error 15"},
      {"nvmlDeviceGetRunningProcessDetailList", details, scripted, declare("C"), both},
      {"nvmlDeviceGetProcessUtilization", shares, "40 ", declare("C"), "40 25 "},
  };
}

}  // namespace gpuwarden::nvml
