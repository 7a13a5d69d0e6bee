// SPDX-License-Identifier: Apache-2.0
// Snapshots for judges' tests, as values.
#pragma once

#include <fmt/format.h>

#include <string>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::testing {

/// A healthy, idle GPU; its UUID is "GPU-<index as hex digit>000-…".
inline facts::GpuRecord gpu(std::uint32_t index, const std::string& name = "NVIDIA H100 80GB HBM3",
                            Bytes memory = 80_GiB) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex{index};
  record.gpu.uuid = Uuid(fmt::format("GPU-{:x}000-test", index));
  record.gpu.name = name;
  record.gpu.pci_bus_id = fmt::format("00000000:{:02X}:00.0", 0x10 + index);
  record.gpu.pci_device_id = static_cast<std::uint32_t>(std::hash<std::string>{}(name));
  record.gpu.compute_capability = facts::ComputeCapability{9, 0};
  record.sample.memory_total = memory;
  record.sample.memory_used = Bytes(0);
  record.sample.memory_free = memory;
  record.sample.utilization_gpu = Percent(0);
  record.processes.emplace();
  return record;
}

inline facts::Snapshot fleet(std::uint32_t count) {
  facts::Snapshot snapshot;
  for (std::uint32_t i = 0; i < count; ++i) snapshot.gpus.push_back(gpu(i));
  return snapshot;
}

/// Four different models, so that CUDA's order is not NVML's.
inline facts::Snapshot mixed_fleet() {
  facts::Snapshot snapshot;
  snapshot.gpus = {gpu(0, "Tesla T4", 16_GiB), gpu(1, "NVIDIA GeForce RTX 3090", 24_GiB),
                   gpu(2, "NVIDIA A100-SXM4-80GB")};
  snapshot.gpus[0].gpu.compute_capability = facts::ComputeCapability{7, 5};
  snapshot.gpus[1].gpu.compute_capability = facts::ComputeCapability{8, 6};
  snapshot.gpus[2].gpu.compute_capability = facts::ComputeCapability{8, 0};
  return snapshot;
}

/// GPU 0 cut into three instances, GPU 1 whole.
inline facts::Snapshot mig_fleet() {
  facts::Snapshot snapshot = fleet(2);
  snapshot.gpus[0].gpu.mig_enabled = true;
  for (std::uint32_t i = 0; i < 3; ++i) {
    facts::MigDevice mig;
    mig.index = i;
    mig.uuid = Uuid(fmt::format("MIG-{}aaa", i));
    mig.profile = i == 0 ? "3g.40gb" : "1g.10gb";
    mig.gpu_instance = i + 7;
    mig.memory_total = mig.memory_free = i == 0 ? 40_GiB : 10_GiB;
    snapshot.gpus[0].mig_devices.push_back(mig);
  }
  return snapshot;
}

}  // namespace gpuwarden::testing
