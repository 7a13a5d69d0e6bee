// SPDX-License-Identifier: Apache-2.0
// A simulated fleet as its YAML file describes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "sim/core/fields.hpp"
#include "sim/core/models.hpp"

namespace gpuwarden::sim {

inline constexpr std::size_t kMaxGpus = 64;
inline constexpr std::uint32_t kWholeFleet = 0xFFFFFFFF;

/// What can go wrong, and what it does is in physics.cpp and nvml: numbers are the Xid, the count, the link.
enum class FaultKind : std::uint32_t {
  xid,
  ecc_corrected,
  ecc_uncorrected,
  lost,
  reset_required,
  unknown_error,
  no_permission,
  hang,
  hang_init,
  thermal_runaway,
  fan_failure,
  nvlink_down,
  slow_clock,
  mismatch,
  driver_not_loaded,
  cuda_error,          ///< the next call of the CUDA driver on the GPU fails so (a CUresult), once
  cuda_out_of_memory,  ///< that many allocations fail
  cuda_corrupt,        ///< the contexts that live on the GPU answer every call so
};
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::xid;
  std::int64_t value = 0;
  std::chrono::milliseconds at{0};  ///< fleet time
};
/// "xid=79", "lost", "ecc_uncorrected=2", "off_the_bus" (same as lost).
Result<Fault> parse_fault(std::string_view text);

/// A scripted load. kind "training" works for `epoch` and stalls for `stall`; "inference" is busy for `duty` percent
/// of each `epoch`; "memory_growth" adds `growth_mib` each second.
struct Workload {
  std::string kind = "idle";
  double load = 95;  ///< percent while working
  double epoch = 60;
  double stall = 5;  ///< seconds
  double duty = 50;  ///< percent
  double growth_mib = 64;
  double memory_mib = 0;
};

struct ProcessSpec {
  std::int32_t pid = 0;
  std::string user;
  std::string command;
  std::optional<double> memory_mib;  ///< empty: NVML does not tell (as under WSL)
  double utilization = 0;
  bool graphics = false;
  bool compute = true;
  bool mps = false;  ///< a client of the Multi-Process Service: NVML lists it apart from compute processes
  std::optional<std::uint32_t> gpu_instance;
};

struct MigInstance {
  std::string profile;
  std::string uuid;
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
  int multiprocessors = 0;
  int memory_mib = 0;
  int gpu_slices = 0;
  int compute_slices = 0;
  double memory_used_mib = 0;
  std::uint32_t slot = 0;  ///< on its GPU, while it lives
};

struct GpuSpec {
  Model model{};
  std::string name;
  std::string uuid;
  std::string serial;
  std::string vbios;
  std::string board_part_number;
  std::string bus_id;  ///< "00000000:17:00.0"
  std::string cpu_list;
  bool suspended = false;
  bool mig = false;
  std::vector<MigInstance> instances;
  Workload workload;
  std::vector<ProcessSpec> processes;
  std::vector<Fault> faults;
  /// Pinned readings; a pinned empty one is "not supported".
  std::map<Field, std::optional<double>> readings;
};

/// Who may change settings: root alone, as with real drivers; everybody; nobody.
enum class Privileged { real, yes, no };

struct FleetSpec {
  std::string name;
  std::string driver = "550.54.15";
  std::string cuda = "12.4";
  std::string kernel_module;  ///< empty: same as driver
  std::uint64_t seed = 1;
  double speed = 1;
  bool frozen = false;
  bool nvswitch = false;
  Privileged privileged = Privileged::real;
  double cuda_latency = 1;     ///< factor on the modelled latencies of the CUDA driver; 0: none
  double context_mib = -1;     ///< what a CUDA context takes; -1: by the GPU's size
  double call_latency_us = 0;  ///< every call about a GPU takes this long, as a driver's does
  std::vector<Fault> faults;   ///< of the whole fleet
  std::vector<GpuSpec> gpus;
};

/// Reads a fleet file. `identity` goes into made-up UUIDs and serials, so that two fleets of one preset differ.
/// Impossible values, unknown keys and models, more than 64 GPUs, a UUID or bus id twice: invalid_argument with
/// "NAME:LINE:COLUMN".
Result<FleetSpec> parse_fleet(std::string_view yaml, std::string_view name, std::string_view identity);

/// The text of a built-in fleet, or nothing; and the names of all.
std::optional<std::string_view> preset(std::string_view name);
std::vector<std::string> preset_names();

/// The driver profile (418, 450, 470, 535, 550, 580) that stands for a driver version: the newest not above it.
int library_profile(std::string_view driver_version);

}  // namespace gpuwarden::sim
