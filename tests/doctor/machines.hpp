// SPDX-License-Identifier: Apache-2.0
// A machine in which the doctor finds nothing, and the shape of the cases that make a check speak.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::testing {

/// A server with four H100, everything installed and in order (its environment is set): no check says anything.
facts::Snapshot healthy_machine();

/// Shorthands for changing it.
facts::Environment& software(facts::Snapshot& machine);
facts::Host& host(facts::Snapshot& machine);
void set_variable(facts::Snapshot& machine, std::string_view name, std::string_view value);
/// Another driver, everywhere the same.
void use_driver(facts::Snapshot& machine, std::string_view version);
/// Another model of GPU in all places.
void use_gpus(facts::Snapshot& machine, std::string_view name, facts::ComputeCapability capability);
/// Nothing tells the driver's version any more.
void forget_driver(facts::Snapshot& machine);
void use_module(facts::Snapshot& machine, facts::ModuleFlavour flavour);
/// A machine without any GPU, and without a driver.
void remove_gpus(facts::Snapshot& machine);
void remove_toolkits(facts::Snapshot& machine);
void use_v100(facts::Snapshot& machine);
void use_distribution(facts::Snapshot& machine, std::string_view id, std::string_view version);
void add_amd_gpu(facts::Snapshot& machine, std::string_view architecture);
/// Takes the toolkits, Pythons and variables away, for machines that they would not fit.
void remove_cuda_software(facts::Snapshot& machine);
/// The same machine, seen from inside a container ("docker") or in WSL 2.
void move_into_container(facts::Snapshot& machine, std::string_view kind);
void move_into_wsl(facts::Snapshot& machine);
void add_package(facts::Snapshot& machine, std::string_view name, std::string_view version);
void remove_package(facts::Snapshot& machine, std::string_view name);
void set_package(facts::Snapshot& machine, std::string_view name, std::string_view version);
/// Another PyTorch in the only Python ("2.9.1+cu128", "12.8") and the torchvision that goes with it.
void use_torch(facts::Snapshot& machine, std::string_view version, std::string_view cuda, std::string_view vision);
facts::Library& library(facts::Snapshot& machine, std::string_view name);
void set_service(facts::Snapshot& machine, std::string_view name, std::string_view state);

/// For one check: what makes it speak, alone, and what only nearly does. Both start from healthy_machine().
struct Case {
  std::string_view id;
  void (*sick)(facts::Snapshot&);
  void (*near_miss)(facts::Snapshot&);
  /// A part of the finding's title.
  std::string_view says;
  /// What the machine is to be good for (doctor --for); empty: nothing special.
  std::string_view purpose = "";
  /// The near miss's own; empty: the same.
  std::string_view near_purpose = "";
};

/// Runs the cases: each sick machine has exactly one finding, of that id; each near miss has none. Also holds that
/// every finding of a warning and above has a fix, and that ids and titles have no control characters.
void expect_cases(std::span<const Case> cases);

/// The verdict over a machine, with the compiled-in knowledge; `purpose` as in doctor --for.
doctor::Examination examined(const facts::Snapshot& machine, std::string_view purpose = "");
/// The ids that it has, worst first, joined by blanks: "gpu-lost xid-error"; empty where nothing was found.
std::string found_in(const facts::Snapshot& machine, std::string_view purpose = "");

/// All fixes of all findings, a line each.
std::string fixes_of(const facts::Snapshot& machine, std::string_view purpose = "");

/// The titles of all findings, a line each.
std::string titles_of(const facts::Snapshot& machine, std::string_view purpose = "");

/// The cases of each group of checks, each in its own file; the table's test holds them against the checks.
std::span<const Case> driver_cases();
std::span<const Case> device_cases();
std::span<const Case> fault_cases();
std::span<const Case> health_cases();
std::span<const Case> toolkit_cases();
std::span<const Case> framework_cases();
std::span<const Case> serving_cases();
std::span<const Case> library_cases();
std::span<const Case> variable_cases();
std::span<const Case> container_cases();
std::span<const Case> multi_gpu_cases();
std::span<const Case> system_cases();
std::span<const Case> cluster_cases();
std::span<const Case> reported_cases();
std::span<const Case> purpose_cases();
std::span<const Case> told_cases();

}  // namespace gpuwarden::testing
