// SPDX-License-Identifier: Apache-2.0
// The simulator, reached as everything of NVIDIA's is: a library that is opened when it is needed.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::machine {

/// Where the simulator lies and where its fleets live.
struct SimulatorPlaces {
  /// The folder with a folder for each driver profile; empty: ../lib/gpuwarden/sim beside the running program.
  std::filesystem::path libraries;
  /// Where fleet files made from captures are put; empty: /dev/shm/gpuwarden-sim-UID. The fleets themselves live
  /// below GPUWARDEN_SIM_DIR of the process's environment, which only the simulator's libraries read.
  std::filesystem::path folder;
};

/// GPUWARDEN_SIM_LIB_DIR and GPUWARDEN_SIM_DIR of an environment.
SimulatorPlaces simulator_places(const Environment& environment);

/// What a job pretends to use on a simulated fleet.
struct SimulatedLoad {
  Bytes memory = 1_GiB;
  Percent utilization = 60_pct;
};

/// The simulator's library, opened with dlopen: once at a time in a process, attached to one fleet, which lives at
/// least as long as this object.
class Simulator {
 public:
  /// Fails with unavailable where there is no such library, and while another Simulator is open.
  static Result<std::unique_ptr<Simulator>> open(const SimulatorPlaces& places = {});
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  ~Simulator();

  /// One control call ({"op": ...}; see sim/core/control.hpp). Fails with invalid_argument where the simulator knows
  /// no such fleet or value, with failed for anything else it refuses.
  Result<nlohmann::json> call(const nlohmann::json& request);
  /// Has a process show as holding memory and load on `gpus` for as long as it lives.
  Result<void> declare(Pid process, const std::vector<std::string>& gpus, const SimulatedLoad& load);
  /// The NVML library of a driver profile.
  std::filesystem::path library(int profile) const;

 private:
  Simulator() = default;
  int (*call_)(const char*, char**) = nullptr;
  std::filesystem::path libraries_;
};

}  // namespace gpuwarden::machine
