// SPDX-License-Identifier: Apache-2.0
// What NVML's calls that change a GPU take and give: MIG instances, accounting, power. Part of nvml_abi.hpp.
#pragma once

#include "nvidia/nvml_basics.hpp"

namespace gpuwarden::nvml {

struct GpuInstanceOpaque;
using GpuInstance = GpuInstanceOpaque*;
struct ComputeInstanceOpaque;
using ComputeInstance = ComputeInstanceOpaque*;

/// Where an instance lies, in slices of memory (GPU instances) or of compute (compute instances).
struct Placement {
  unsigned start;
  unsigned size;
};

struct GpuInstanceProfileInfo {
  unsigned id;
  unsigned peer_to_peer;
  unsigned slices;
  unsigned instances;
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg_engines;
  unsigned ofa_engines;
  unsigned long long memory_mib;
};

struct GpuInstanceProfileInfoV2 {
  unsigned version;
  unsigned id;
  unsigned peer_to_peer;
  unsigned slices;
  unsigned instances;
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg_engines;
  unsigned ofa_engines;
  unsigned long long memory_mib;
  char name[96];
};

struct GpuInstanceProfileInfoV3 {
  unsigned version;
  unsigned id;
  unsigned slices;
  unsigned instances;
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg_engines;
  unsigned ofa_engines;
  unsigned long long memory_mib;
  char name[96];
  unsigned capabilities;
};

struct GpuInstanceInfo {
  Device device;
  unsigned id;
  unsigned profile;
  Placement placement;
};

struct ComputeInstanceProfileInfo {
  unsigned id;
  unsigned slices;
  unsigned instances;
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg_engines;
  unsigned ofa_engines;
};

struct ComputeInstanceProfileInfoV2 {
  unsigned version;
  ComputeInstanceProfileInfo info;
  char name[96];
};

struct ComputeInstanceProfileInfoV3 {
  unsigned version;
  ComputeInstanceProfileInfo info;
  char name[96];
  unsigned capabilities;
};

struct ComputeInstanceInfo {
  Device device;
  GpuInstance gpu_instance;
  unsigned id;
  unsigned profile;
  Placement placement;
};

struct AccountingStats {
  unsigned gpu_utilization;
  unsigned memory_utilization;
  unsigned long long max_memory_usage;  ///< bytes
  unsigned long long time;              ///< milliseconds of life; 0 while it runs
  unsigned long long start_time;        ///< microseconds
  unsigned is_running;
  unsigned reserved[5];
};

struct PowerValue {
  unsigned version;
  unsigned char scope;
  unsigned milliwatts;
};
inline constexpr unsigned kPowerValueV2 = version_word<PowerValue>(2);
inline constexpr unsigned char kPowerScopeGpu = 0;

inline constexpr unsigned kFanPolicyAutomatic = 0;
inline constexpr unsigned kFanPolicyManual = 1;
inline constexpr int kRestrictedApplicationClocks = 0;
inline constexpr int kRestrictedAutoBoost = 1;

}  // namespace gpuwarden::nvml
