// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/machine.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/users.hpp"
#include "gpuwarden/knowledge/overlays.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "machine/fleet_source.hpp"

namespace gpuwarden::machine {
namespace {

namespace fs = std::filesystem;

std::string value(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

}  // namespace

Options options_from(const Environment& environment) {
  Options options;
  options.stand_ins = {value(environment, "GPUWARDEN_NVML_LIBRARY"), value(environment, "GPUWARDEN_NVIDIA_SMI"),
                       value(environment, "GPUWARDEN_SYS_ROOT"), value(environment, "GPUWARDEN_PROC_ROOT")};
  options.simulator = simulator_places(environment);
  options.overlays = knowledge::overlay_files(environment);
  options.environment = environment;
  options.lease_directory = value(environment, "GPUWARDEN_LEASE_DIR");
  return options;
}

Result<Machine> Machine::open(Source source, Options options) {
  Machine machine;
  machine.options_ = std::move(options);
  if (auto* captured = std::get_if<Captured>(&source)) {
    machine.captured_ = std::move(captured->snapshot);
    machine.capture_name_ = std::move(captured->name);
  } else if (const auto* simulated = std::get_if<Simulated>(&source)) {
    GPUWARDEN_CHECK(machine.attach(simulated->spec));
  }
  machine.set_reader();
  return machine;
}

Result<void> Machine::attach(const std::string& spec) {
  GPUWARDEN_TRY(simulator_, Simulator::open(options_.simulator));
  GPUWARDEN_TRY(const std::string resolved, resolve_fleet(spec, options_.simulator));
  GPUWARDEN_TRY(const nlohmann::json fleet, simulator_->call({{"op", "attach"}, {"spec", resolved}}));
  fleet_folder_ = fleet["folder"].get<std::string>();
  reader_.nvml_library = simulator_->library(fleet["library_profile"].get<int>());
  library_folder_ = reader_.nvml_library.parent_path().string();
  // The reader's process opens this profile's library, which finds the fleet by this.
  reader_.variables = {{"GPUWARDEN_SIM_FLEET", fleet_folder_}};
  reader_.sys_root = fleet["sys_root"].get<std::string>();
  reader_.driver_proc_root = fleet["proc_root"].get<std::string>();
  reader_.proc_roots = {reader_.driver_proc_root, "/proc"};
  reader_.simulated = true;
  reader_.fleet = fleet["name"].get<std::string>();
  return {};
}

void Machine::set_reader() {
  reader_.timeout = std::max(options_.timeout, std::chrono::milliseconds(1));
  reader_.wake = options_.wake;
  // nvidia-smi would tell of this machine's GPUs.
  reader_.probe = simulated() ? probe::ProbeChoice::nvml : options_.probe;
  const StandIns& given = options_.stand_ins;
  if (!given.nvidia_smi.empty()) reader_.nvidia_smi = given.nvidia_smi;
  if (!given.nvml_library.empty()) reader_.nvml_library = given.nvml_library;
  if (!given.sys_root.empty()) reader_.sys_root = given.sys_root;
  if (given.proc_root.empty()) return;
  reader_.driver_proc_root = given.proc_root;
  reader_.proc_roots.insert(reader_.proc_roots.begin(), given.proc_root);
}

facts::Snapshot Machine::read(const probe::ReadRequest& request) const {
  return captured_ ? *captured_ : probe::MachineReader(reader_).read(request);
}

Result<knowledge::Knowledge> Machine::knowledge() const { return knowledge::read_knowledge(options_.overlays); }

Result<lease::LeaseStore> Machine::open_leases(const std::string& run_id, const std::string& command) const {
  lease::StoreOptions options;
  options.directory_required = !options_.lease_directory.empty();
  if (options.directory_required) options.directory = options_.lease_directory;
  if (simulated()) options.prefix = lease::kSimulatedPrefix;
  // Who only looks, without a run, needs no name, which a directory service may have to be asked for.
  const std::string user = run_id.empty() ? "" : name_of_user(::geteuid());
  options.self = {Pid{::getpid()}, user, run_id, command, system_clock().wall_now()};
  return lease::LeaseStore::open(options, system_clock());
}

std::vector<lease::Device> Machine::lease_devices(const facts::Snapshot& snapshot) const {
  return machine::lease_devices(snapshot, reader_.sys_root, reader_.driver_proc_root);
}

Environment Machine::environment_for(Environment of_program) const {
  Environment needed = simulated_environment(of_program);
  needed.merge(of_program);  // what is needed stays
  return needed;
}

Environment Machine::simulated_environment(const Environment& of_program) const {
  if (!simulated()) return {};
  Environment result{{"GPUWARDEN_SIMULATE", fleet_folder_}, {"GPUWARDEN_SIM_FLEET", fleet_folder_}};
  if (value(of_program, "GPUWARDEN_SIM_LIBRARIES") == "off") return result;
  const std::string before = value(of_program, "LD_LIBRARY_PATH");
  result["LD_LIBRARY_PATH"] = library_folder_ + (before.empty() ? "" : ":" + before);
  return result;
}

Result<void> Machine::bequeath_fleet() const {
  if (!simulated()) return {};
  GPUWARDEN_TRY([[maybe_unused]] const nlohmann::json done, simulator_->call({{"op", "bequeath"}}));
  return {};
}

}  // namespace gpuwarden::machine
