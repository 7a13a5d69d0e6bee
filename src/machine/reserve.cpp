// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reserve.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/placement/ways_to_fit.hpp"

namespace gpuwarden::machine {
namespace {

/// Leaves the GPUs out of the request. One that does not even tell its UUID any more cannot be chosen, nor left out by
/// it.
void leave_out(const std::vector<Uuid>& without, const Machine& machine, placement::Request& request) {
  if (without.empty()) return;
  const facts::Snapshot there = machine.read();
  for (const Uuid& uuid : without) {
    std::vector<placement::GpuName> name{{uuid.value}};
    facts::Snapshot one = there;
    if (placement::keep_named(name, one)) request.exclude.push_back(std::move(name[0]));
  }
}

/// A GPU that is lost just then does not tell its UUID any more, by which it was to be left out: it is looked for
/// again.
Result<Reservation> make_without(ReservationRequest request, const Machine& machine, const GpuSource& source,
                                 Clock& clock, const std::stop_token& stop) {
  constexpr int kMostTimes = 5;
  const std::vector<placement::GpuName> excluded = request.gpus.exclude;
  for (int times = 1;; ++times) {
    request.gpus.exclude = excluded;
    leave_out(request.without, machine, request.gpus);
    auto gpus = Reservation::make(request, source, clock, stop);
    const bool unknown =
        !gpus && (gpus.error().code == ErrorCode::not_found || gpus.error().code == ErrorCode::invalid_argument);
    if (!unknown || request.without.empty() || times == kMostTimes) return gpus;
  }
}

}  // namespace

Result<Reservation> reserve(const Machine& machine, ReservationRequest request, const Holder& holder, Clock& clock,
                            const std::stop_token& stop) {
  const bool captured = machine.captured().has_value();
  std::optional<lease::LeaseStore> store;
  if (!captured) {
    request.visibility = placement::visibility_from(machine.options().environment);
    GPUWARDEN_TRY(store, machine.open_leases(holder.run_id, holder.command));
  }
  probe::MachineReader reader(machine.reader());
  GpuSource source{.leases = store ? &*store : nullptr,
                   .captured = captured,
                   .simulated = machine.simulated(),
                   .sys_root = machine.reader().sys_root,
                   .proc_root = machine.reader().driver_proc_root};
  source.read = [&](const probe::ReadRequest& what) { return captured ? *machine.captured() : reader.read(what); };
  source.disabled = [&](const facts::Snapshot& snapshot) -> Result<std::vector<facts::Disabling>> {
    GPUWARDEN_TRY(lease::Disablings::View view, out_of_use_in(machine, snapshot, clock.wall_now()));
    return std::move(view.disabled);
  };
  source.advise = [&](const placement::Decision& decision, const facts::Snapshot& snapshot) -> std::string {
    if (decision.may_come_true)
      return placement::ways_to_wait(decision,
                                     "--wait waits in line for them; --explain of gpuwarden select tells more");
    return placement::ways_to_fit(request.gpus, {snapshot, {}, {}, request.visibility}, decision);
  };
  return make_without(request, machine, source, clock, stop);
}

std::vector<std::string> warnings_of(const Reservation& reservation, const Machine& machine) {
  std::vector<std::string> warnings = reservation.decision().warnings;
  std::ranges::copy(reservation.warnings(), std::back_inserter(warnings));
  const bool named = !machine.options().lease_directory.empty();
  if (reservation.devices().empty() || machine.simulated() || named) return warnings;
  if (auto shared = lease::container_warning(lease::StoreOptions{}.directory)) warnings.push_back(std::move(*shared));
  return warnings;
}

Environment environment_of(const Reservation& reservation, const Machine& machine, Environment environment) {
  const Environment simulated = machine.simulated_environment(environment);
  environment["CUDA_VISIBLE_DEVICES"] = placement::cuda_visible_devices(reservation.decision());
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  for (const auto& [name, value] : simulated) environment[name] = value;
  return environment;
}

Result<Holdings> holdings_of(const Machine& machine, const std::stop_token& stop) {
  GPUWARDEN_TRY(const auto store, machine.open_leases("", ""));
  // What is held by the kernel's files alone is found only where the GPUs are known.
  const auto devices = machine.lease_devices(machine.read({.processes = false}));
  return Holdings{store.inspect(devices, lease::Names::told, stop), store.simulated()};
}

}  // namespace gpuwarden::machine
