// SPDX-License-Identifier: Apache-2.0
// The machine that is worked on: this one, a simulated fleet, or the facts of a capture. All three answer alike.
//
//     auto machine = Machine::open(Simulated{"h100x8"}, options_from(current_environment()));
//     if (!machine) return machine.error();
//     const facts::Snapshot gpus = machine->read();
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/machine/simulator.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

namespace gpuwarden::machine {

/// This machine's own GPUs.
struct Real {};

/// A fleet of the simulator: a preset ("h100x8"), a YAML file, a capture's file, a started fleet's name or folder.
struct Simulated {
  std::string spec;
};

/// Facts that stand for the machine: nothing is probed.
struct Captured {
  facts::Snapshot snapshot;
  std::string name;  ///< of the file they come from, for messages
};

using Source = std::variant<Real, Simulated, Captured>;

/// What stands in for parts of the machine: unusual installations, and tests. Empty: the machine's own.
struct StandIns {
  std::filesystem::path nvml_library;
  std::filesystem::path nvidia_smi;
  std::filesystem::path sys_root;
  std::filesystem::path proc_root;
};

/// How a machine is opened. The defaults ask this machine, by its own libraries.
struct Options {
  /// How long the driver, and then each GPU, may take to answer.
  std::chrono::milliseconds timeout = std::chrono::seconds(5);
  /// Reads sleeping GPUs too, which wakes them.
  bool wake = false;
  /// Who is asked. A simulated fleet has NVML only, whatever is said here.
  probe::ProbeChoice probe = probe::ProbeChoice::automatic;
  StandIns stand_ins;
  SimulatorPlaces simulator;
  /// Files laid over the built-in knowledge, in this order (knowledge::overlay_files finds a site's and a user's).
  std::vector<std::filesystem::path> overlays;
  /// The variables of those who ask: the survey judges by them, and CUDA_VISIBLE_DEVICES restricts the choice.
  Environment environment;
  /// The directory that reservations are told in. Empty: /run/lock/gpuwarden, where that can be used.
  std::filesystem::path lease_directory;
};

/// The options that an environment's GPUWARDEN_* variables name (docs/cli.md lists them), with the environment itself.
Options options_from(const Environment& environment);

/// What a survey looks at beside the GPUs.
struct SurveyOptions {
  /// Everything is read below this folder. With another than "/" the GPUs and the kernel's log are left out, and the
  /// files are judged by the variables that a login there would have at least.
  std::filesystem::path root = "/";
  bool software = true;        ///< driver, libraries, toolkits, Pythons, containers
  bool start_pythons = false;  ///< ask each Python with PyTorch what it was built for
  std::filesystem::path working_directory;
  /// For each probe, where it is longer than the probe's own.
  std::chrono::milliseconds deadline{};
};

class Machine {
 public:
  /// Fails with unavailable where the simulator is not installed, with invalid_argument for an unknown fleet, or as
  /// reading the capture does. Real GPUs are not asked before read().
  static Result<Machine> open(Source source, Options options = {});

  /// The facts about the GPUs: of the capture where there is one, else read now. Never fails as a whole (see
  /// probe::NvmlReader::read).
  facts::Snapshot read(const probe::ReadRequest& request = {}) const;
  /// All facts that judges look at: GPUs, the kernel's log and the software around them. A capture is what it is; a
  /// simulated fleet has no software of its own.
  facts::Snapshot survey(const SurveyOptions& options, const probe::ReadRequest& request = {}) const;
  /// The software that programs which are started here find, by their variables, below another root too; a simulated
  /// fleet's are this machine's. The GPUs are read as well where `gpus`, unless another root is looked at. A capture is
  /// what it is; fails with unsatisfied where it tells of no software.
  Result<facts::Snapshot> survey_software(const SurveyOptions& options, bool gpus) const;
  /// What is built in, under the overlays. Fails where an overlay cannot be read or is wrong, naming it.
  Result<knowledge::Knowledge> knowledge() const;
  /// The reservations of this machine, for a holder who runs `command`; without a `run_id` for somebody who only looks.
  /// Fails as lease::LeaseStore::open does.
  Result<lease::LeaseStore> open_leases(const std::string& run_id, const std::string& command) const;
  /// What people have taken out of use on this machine, or of simulated fleets, by UUID.
  lease::Disablings disablings() const { return lease::Disablings(lease::disabling_places(options_.environment)); }
  /// The devices of a snapshot with the kernel's files that are locked for them.
  std::vector<lease::Device> lease_devices(const facts::Snapshot& snapshot) const;
  /// What a program's environment needs to find the simulated fleet: its folder, and the simulator's NVML and CUDA
  /// libraries before all others (GPUWARDEN_SIM_LIBRARIES=off in `of_program` leaves the search path as it is). Empty
  /// for real GPUs.
  Environment simulated_environment(const Environment& of_program) const;
  /// The variables of a program that is to see this machine: `of_program` with these set.
  Environment environment_for(Environment of_program) const;

  /// A simulated fleet lives on as long as the program that this process becomes, and whatever that starts; nothing for
  /// real GPUs.
  Result<void> bequeath_fleet() const;

  bool simulated() const { return simulator_ != nullptr; }
  /// The facts of the capture that stands for the machine; empty where there is none.
  const std::optional<facts::Snapshot>& captured() const { return captured_; }
  const std::string& capture_name() const { return capture_name_; }
  /// Of the simulated fleet; nullptr where the GPUs are none of the simulator's.
  Simulator* simulator() const { return simulator_.get(); }
  const std::string& fleet_folder() const { return fleet_folder_; }
  /// For readers that stay open.
  const probe::ReaderOptions& reader() const { return reader_; }
  const Options& options() const { return options_; }

 private:
  Machine() = default;
  Result<void> attach(const std::string& spec);
  void set_reader();

  Options options_;
  probe::ReaderOptions reader_;
  std::unique_ptr<Simulator> simulator_;
  std::string fleet_folder_;
  std::string library_folder_;
  std::optional<facts::Snapshot> captured_;
  std::string capture_name_;
};

}  // namespace gpuwarden::machine
