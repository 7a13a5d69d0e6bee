// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reserve.hpp"

#include <optional>

#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/placement/ways_to_fit.hpp"

namespace gpuwarden::machine {

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
    if (decision.may_come_true) return "--wait waits in line for them; --explain of gpuwarden select tells more";
    return placement::ways_to_fit(request.gpus, {snapshot, {}, {}, request.visibility}, decision);
  };
  return Reservation::make(request, source, clock, stop);
}

}  // namespace gpuwarden::machine
