// SPDX-License-Identifier: Apache-2.0
// What NVML reports about each simulated product: limits, clocks, and what the product does not support.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::sim {

/// A product. 0 means "not supported": NVML then answers NOT_SUPPORTED.
struct Model {
  std::string_view name;  ///< as NVML spells it
  std::string_view architecture;
  int capability_major;
  int capability_minor;
  int multiprocessors;
  int cuda_cores;
  std::uint32_t pci_device_id;  ///< device << 16 | vendor
  int memory_mib;               ///< NVML's total
  int reserved_mib;
  int power_min;
  int power_default;
  int power_max;  ///< watts
  int power_idle;
  int clock_graphics_max;  ///< MHz
  int clock_memory_max;
  int clock_video_max;
  int clock_idle;
  int temperature_slowdown;
  int temperature_shutdown;
  int pcie_generation;
  int bus_width;  ///< bits
  int nvlinks;
  int nvlink_version;
  bool fan;
  bool ecc;
  int mig_instances;  ///< at most; 0: no MIG
  std::string_view vbios;
  std::string_view brand;
  std::string_view driver_branch;  ///< first that supports it
};

std::span<const Model> models();
/// By NVML's name, with or without "NVIDIA ", letter case ignored; nullptr where unknown.
const Model* find_model(std::string_view name);
/// A product that is not in the table, made from the public catalogue where it is there; limits are then estimates
/// from TDP. `storage` keeps the strings alive.
Model model_from_catalogue(std::string_view name, std::string& storage);

/// What a kind of GPU instance takes of a GPU's seven compute and eight memory slices, and what NVML calls it.
struct MigShape {
  unsigned profile;  ///< number of the enumeration NVML_GPU_INSTANCE_PROFILE_*
  unsigned id;       ///< as nvidia-smi mig -lgip prints it
  int slices;
  int memory_slices;
  int most;        ///< instances at a time
  int places;      ///< where it may begin: at 0, memory_slices, ... so often
  unsigned first;  ///< lowest id that its instances get
};

/// A MIG profile of a model: "1g.10gb" with its share of SMs, memory and engines (source: NVIDIA's MIG user guide).
struct MigProfile {
  std::string_view model;  ///< part of the model's name
  std::string_view name;
  const MigShape* shape;
  int multiprocessors;
  int memory_mib;
  int decoders;
  int jpeg_engines;
  int ofa_engines;
};
std::vector<MigProfile> mig_profiles(const Model& model);

}  // namespace gpuwarden::sim
