// SPDX-License-Identifier: Apache-2.0
// Simulated fleets: what jobs pretend to use on them, and those that run by themselves, with nobody in them: a process
// in the background keeps each one alive.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::machine {

/// "memory=20GiB,util=80"; what is not named is as usual. Fails with invalid_argument.
Result<SimulatedLoad> parse_load(std::string_view text);

struct FleetPreset {
  std::string name;
  std::string driver;
  std::string cuda;
  std::vector<std::string> gpus;  ///< the model of each
};

/// The fleets that are built in, and the names of those that run.
struct FleetList {
  std::vector<FleetPreset> presets;
  std::vector<std::string> running;
};
Result<FleetList> list_fleets(const SimulatorPlaces& places);
/// As `gpuwarden sim list --json` prints it.
nlohmann::json to_json(const FleetList& list);
/// As `gpuwarden sim start --json` prints it: the fleet's name and the process that keeps it.
nlohmann::json started_to_json(const std::string& name, Pid keeper);
/// As `gpuwarden sim show` prints it: every reading of the fleet by its name. Fails as the simulator does.
Result<nlohmann::json> shown_to_json(const Machine& fleet);

/// Starts the fleet `spec` under a name, in a process that leads a session of its own, is nobody's child, and has none
/// of the caller's descriptors. Gives that process: SIGTERM ends it, and so the fleet when nobody else is in it. It is
/// forked: for a program with one thread, or one whose other threads hold no lock. Fails with what the simulator says
/// about name and spec.
Result<Pid> start_fleet(const std::string& name, const std::string& spec, const SimulatorPlaces& places);

/// Opens a fleet that runs, not a preset of that name. Fails with invalid_argument where there is none.
Result<Machine> open_running_fleet(const std::string& name, Options options);

/// Ends the process that keeps the fleet alive and waits for it, for at most 5 s. Fails with failed where it has none
/// (it ends with its last user), with timed_out where it stays.
Result<void> stop_fleet(const Machine& fleet, Clock& clock);

}  // namespace gpuwarden::machine
