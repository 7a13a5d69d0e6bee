// SPDX-License-Identifier: Apache-2.0
// A machine with GPUs as facts, and the stand-in for CUDA's library that agrees with it.
#pragma once

#include <cstdlib>

#include "gpuwarden/burn_in/burn_in.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::testing {

/// What the stand-in is told (stand_in_cuda.cpp lists the words), for the length of a test.
class StandInSettings {
 public:
  explicit StandInSettings(const std::string& text) { ::setenv("GPUWARDEN_STAND_IN_CUDA", text.c_str(), 1); }
  StandInSettings(const StandInSettings&) = delete;
  StandInSettings& operator=(const StandInSettings&) = delete;
  ~StandInSettings() { ::unsetenv("GPUWARDEN_STAND_IN_CUDA"); }
};

/// The first `count` of the stand-in's devices, as NVML would tell them: idle H100s on PCIe 5.0 x16.
inline facts::Snapshot machine_with_gpus(int count = 1) {
  facts::Snapshot snapshot;
  for (int i = 0; i < count; ++i) {
    facts::GpuRecord record;
    record.gpu.index = GpuIndex{static_cast<std::uint32_t>(i)};
    record.gpu.uuid = Uuid("GPU-00000000-0000-0000-0000-00000000000" + std::to_string(i));
    record.gpu.name = "NVIDIA H100 80GB HBM3";
    record.gpu.pci_bus_id = "00000000:17:00.0";
    record.gpu.pcie_generation_max = Count(5);
    record.gpu.pcie_width_max = Count(16);
    record.sample.pcie_generation = Count(1);
    record.sample.pcie_width = Count(16);
    record.processes.emplace();
    snapshot.gpus.push_back(record);
  }
  return snapshot;
}

/// Through the stand-in, quickly. Each of the tests has time enough on a machine under load.
inline burn_in::Options stand_in_options() {
  burn_in::Options options;
  options.library = GPUWARDEN_STAND_IN_CUDA_LIBRARY;
  options.stand_in = true;
  options.cublas = {GPUWARDEN_STAND_IN_CUDA_LIBRARY};
  options.deadline = std::chrono::seconds(40);
  options.pace = 0.01;
  return options;
}

inline facts::BurnInRun run_burn_in(const facts::Snapshot& snapshot, const burn_in::Options& options,
                                    const burn_in::Listener& listener = {}) {
  return burn_in::run(snapshot, knowledge::Knowledge::built_in(), options, listener);
}

/// The figure of this id, or one of value -1.
inline facts::BurnInFigure figure(const facts::BurnInGpu& gpu, std::string_view id) {
  for (const auto& figure : gpu.figures) {
    if (figure.id == id) return figure;
  }
  return {.id = std::string(id), .value = -1};
}

}  // namespace gpuwarden::testing
