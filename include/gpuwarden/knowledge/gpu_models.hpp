// SPDX-License-Identifier: Apache-2.0
// What is published about GPU models and PCI ids, compiled in from knowledge/*.csv.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// Whether NVIDIA's open kernel module serves a GPU (source: NVIDIA driver installation guide, kernel modules).
enum class OpenModule { unknown, unsupported, supported, required };

/// A GPU model as NVML names it. Zero or empty means that no figure is known. Every row has its source.
struct GpuModel {
  std::string_view name;          ///< "NVIDIA H100 80GB HBM3"
  std::string_view architecture;  ///< "Hopper"
  int capability_major = 0;
  int capability_minor = 0;
  double memory_gb = 0;              ///< as marketed, in GB or GiB as the maker counts it
  double memory_bandwidth_gb_s = 0;  ///< 10^9 bytes per second
  int multiprocessors = 0;
  int cuda_cores = 0;
  double fp32_tflops = 0;
  double bf16_dense_tflops = 0;
  double fp16_dense_tflops = 0;
  double tdp_watts = 0;
  double nvlink_gb_s = 0;  ///< both directions, all links
  int mig_max_instances = 0;
  std::string_view source;
  double tf32_dense_tflops = 0;
  double fp8_dense_tflops = 0;
  double int8_dense_tops = 0;
  std::string_view pci_device_ids;  ///< "2684" or several: "1E30;1E78"
  Version first_cuda;               ///< toolkit that can build for it
  Version last_cuda;                ///< empty: still
  int first_driver_branch = 0;      ///< of its architecture
  int last_driver_branch = 0;       ///< 0: still served
  OpenModule open_module = OpenModule::unknown;
};

std::span<const GpuModel> gpu_models();
/// The model with this NVML name; with and without the leading "NVIDIA "; nullptr where unknown.
const GpuModel* find_gpu_model(std::string_view nvml_name);
/// CUDA cores per SM of an architecture (source: the CUDA programming guide's throughput table).
std::optional<int> cuda_cores_per_multiprocessor(int capability_major, int capability_minor);
/// Multiprocessors of one MIG compute slice: 14 on Ampere, 16 on Hopper, 18 on Blackwell (source: NVIDIA's MIG user
/// guide).
int mig_slice_multiprocessors(int capability_major);
/// The product name of a PCI device id (0x2330) of NVIDIA; a subsystem pair, where given, is tried first.
std::optional<std::string_view> pci_device_name(std::uint16_t device, std::uint16_t subsystem_vendor = 0,
                                                std::uint16_t subsystem_device = 0);

}  // namespace gpuwarden::knowledge
