// SPDX-License-Identifier: Apache-2.0
#include "acquire.hpp"

#include <fmt/format.h>

#include "model_request.hpp"
#include "stop_on_signals.hpp"

namespace gpuwarden::cli {

using placement::Decision;

Result<machine::Reservation> acquire(const Context& context, const Machine& machine, const Selection& selection,
                                     const lease::LeaseStore* store, bool hold) {
  const bool captured = machine.captured.has_value();
  const machine::ReservationRequest request{
      .gpus = selection.request,
      .visibility = captured ? placement::Visibility{} : placement::visibility_from(context.environment),
      .hold = hold,
      .wait = selection.wait};
  probe::MachineReader reader(machine.reader);
  machine::GpuSource source{.leases = store,
                            .captured = captured,
                            .simulated = machine.simulated(),
                            .sys_root = machine.reader.sys_root,
                            .proc_root = machine.reader.driver_proc_root};
  source.read = [&](const probe::ReadRequest& what) { return captured ? *machine.captured : reader.read(what); };
  source.advise = [&](const Decision& decision, const facts::Snapshot& snapshot) -> std::string {
    if (decision.may_come_true) return "--wait waits in line for them; --explain of gpuwarden select tells more";
    return ways_to_fit(selection.request, {snapshot, {}, {}, request.visibility}, decision);
  };
  const StopOnSignals signals;
  return machine::Reservation::make(request, source, system_clock(), signals.token());
}

std::vector<lease::Device> devices_of(const Machine& machine, const facts::Snapshot& snapshot) {
  return machine::lease_devices(snapshot, machine.reader.sys_root, machine.reader.driver_proc_root);
}

std::string explain(const Decision& decision) {
  std::string text;
  for (const auto& verdict : decision.verdicts) {
    const std::string mig = verdict.device.mig ? fmt::format(" MIG {}", *verdict.device.mig) : "";
    text += fmt::format("GPU {}{} {}: {}{}\n", verdict.device.index.value, mig, verdict.device.name,
                        verdict.chosen ? "chosen" : "no: ",
                        verdict.chosen           ? ""
                        : verdict.reason.empty() ? "would do, but the rest is missing"
                                                 : verdict.reason);
  }
  return text;
}

void show_warnings(const Context& context, const Machine& machine, const machine::Reservation& reservation) {
  for (const std::string& warning : reservation.decision().warnings) warn(warning);
  for (const std::string& warning : reservation.warnings()) warn(warning);
  const bool named = context.environment.contains("GPUWARDEN_LEASE_DIR");
  if (reservation.devices().empty() || machine.simulated() || named) return;
  if (const auto warning = lease::container_warning(lease::StoreOptions{}.directory)) warn(*warning);
}

}  // namespace gpuwarden::cli
