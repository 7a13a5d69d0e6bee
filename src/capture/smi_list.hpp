// SPDX-License-Identifier: Apache-2.0
// What names GPUs line by line: nvidia-smi -L, nvlink -s, --version, and nvidia-smi's error messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

struct ListedMig {
  std::string profile;
  std::uint32_t device = 0;
  std::string uuid;
};

struct ListedLink {
  std::uint32_t link = 0;
  std::optional<double> gigabytes_per_second;  ///< empty where "<inactive>"
};

/// "GPU 0: NVIDIA A10 (UUID: GPU-...)" and the indented lines below it.
struct ListedGpu {
  std::uint32_t index = 0;
  std::string name;
  std::string uuid;  ///< as printed; may be masked ("GPU-...")
  std::vector<ListedMig> mig_devices;
  std::vector<ListedLink> links;
};

struct GpuList {
  std::vector<ListedGpu> gpus;
  bool has_links = false;  ///< it is nvidia-smi nvlink -s rather than -L
};

bool is_list_line(std::string_view line);
GpuList read_gpu_list(std::span<const Line> lines, std::size_t& end);
facts::Snapshot snapshot_of_list(const GpuList& list);

/// nvidia-smi --version: "NVML version        : 590.48" and its neighbours, as printed.
struct VersionLines {
  std::vector<std::pair<std::string, std::string>> values;
  std::vector<std::string> lines;
  /// The first of several keys whose value is a version.
  std::optional<std::string> value(std::initializer_list<std::string_view> keys) const;
};
bool is_version_line(std::string_view line);
VersionLines read_version_lines(std::span<const Line> lines, std::size_t& end);

/// A line in which nvidia-smi or NVML gives up, and the error it stands for.
struct SmiFailure {
  facts::DriverProblem error;
  std::string line;
  std::optional<std::string> pci_bus_id;  ///< where one GPU is at fault
};
std::optional<SmiFailure> smi_failure_of(std::string_view line);

}  // namespace gpuwarden::capture
