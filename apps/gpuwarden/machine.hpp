// SPDX-License-Identifier: Apache-2.0
// The machine a command works on: this one, or a simulated fleet.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "command.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/probe/machine_reader.hpp"
#include "gpuwarden/probe/survey.hpp"

namespace gpuwarden::cli {

/// The simulator's library, opened with dlopen; the fleet lives at least as long as this object.
class Simulator {
 public:
  static Result<std::unique_ptr<Simulator>> open(const Environment& environment);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  ~Simulator();

  /// One control call ({"op": ...}; see sim/core/control.hpp).
  Result<nlohmann::json> call(const nlohmann::json& request);
  /// The library of a driver profile.
  std::filesystem::path library(int profile) const;

 private:
  Simulator() = default;
  int (*call_)(const char*, char**) = nullptr;
  std::filesystem::path libraries_;
};

struct Machine {
  probe::ReaderOptions reader;
  std::unique_ptr<Simulator> simulator;
  std::string fleet_folder;    ///< of a simulated fleet
  std::string library_folder;  ///< with the simulator's libnvidia-ml.so.1 and libcuda.so.1
  /// --from: the facts of a capture stand for the machine; nothing is probed.
  std::optional<facts::Snapshot> captured;
  std::string capture_name;

  /// The facts: of the capture where there is one, else read now.
  facts::Snapshot read(const probe::ReadRequest& request = {}) const;
  bool simulated() const { return simulator != nullptr; }
};

/// Reads --from, --simulate / GPUWARDEN_SIMULATE, --timeout, --wake, --probe, and GPUWARDEN_NVML_LIBRARY,
/// GPUWARDEN_NVIDIA_SMI, GPUWARDEN_SYS_ROOT, GPUWARDEN_PROC_ROOT (stand-ins for tests and unusual installations).
Result<Machine> open_machine(Context& context);

/// Several captures of one machine, joined; warnings go to stderr. "-" is standard input.
Result<capture::Capture> read_captures(const std::vector<std::string>& files);

/// Gives the survey's probes the time of --timeout where that is given and longer than their own.
void lengthen_deadline(const Context& context, probe::SurveyRequest& request);

/// All facts that judges look at: of the capture where there is one; else GPUs, kernel log and, unless
/// --no-environment, the software (of --root where that is given). A simulated fleet has no software of its own.
facts::Snapshot read_everything(const Context& context, const Machine& machine, const probe::ReadRequest& request);

/// Attaches to a fleet: a preset, a YAML file, a capture, a started fleet.
Result<Machine> simulate(const Environment& environment, const std::string& spec);

/// What a program's environment needs to find the simulated fleet: its folder, and the simulator's NVML and CUDA
/// libraries before all others. GPUWARDEN_SIM_LIBRARIES=off leaves the search path as it is. Empty for real GPUs.
Environment simulated_environment(const Machine& machine, const Environment& of_program);

/// Where leases and the records of runs are kept: GPUWARDEN_LEASE_DIR, else /run/lock/gpuwarden.
std::filesystem::path lease_directory(const Context& context);
/// The leases of this machine, for a holder who runs `command`.
Result<lease::LeaseStore> open_leases(const Context& context, const Machine& machine, const std::string& run_id,
                                      const std::string& command);

}  // namespace gpuwarden::cli
