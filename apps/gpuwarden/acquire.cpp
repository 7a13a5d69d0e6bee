// SPDX-License-Identifier: Apache-2.0
#include "acquire.hpp"

#include "gpuwarden/base/stop_on_signals.hpp"

namespace gpuwarden::cli {

using placement::Decision;

Result<machine::Reservation> acquire(const Machine& machine, const Selection& selection, bool hold,
                                     const machine::Holder& holder, Decision* refused) {
  const StopOnSignals signals;
  const auto tell = [&](const Decision& decision) {
    for (const std::string& warning : decision.warnings) warn(warning);
    if (refused != nullptr) *refused = decision;
  };
  return machine::reserve(machine,
                          {.gpus = selection.request,
                           .hold = hold,
                           .wait = selection.wait,
                           .least = selection.least,
                           .priority = selection.priority,
                           .refused = tell},
                          holder, system_clock(), signals.token());
}

void show_model_fit(const Decision& decision) {
  if (decision.satisfied && decision.model) say("gpuwarden: {}\n", decision.model->reason);
}

void show_warnings(const Context& context, const Machine& machine, const machine::Reservation& reservation) {
  for (const std::string& warning : reservation.decision().warnings) warn(warning);
  for (const std::string& warning : reservation.warnings()) warn(warning);
  const bool named = context.environment.contains("GPUWARDEN_LEASE_DIR");
  if (reservation.devices().empty() || machine.simulated() || named) return;
  if (const auto warning = lease::container_warning(lease::StoreOptions{}.directory)) warn(*warning);
}

}  // namespace gpuwarden::cli
