// SPDX-License-Identifier: Apache-2.0
#include "acquire.hpp"

#include "gpuwarden/base/stop_on_signals.hpp"

namespace gpuwarden::cli {

using placement::Decision;

machine::ReservationRequest reservation_of(const Selection& selection, bool hold) {
  return {.gpus = selection.request,
          .hold = hold,
          .wait = selection.wait,
          .least = selection.least,
          .priority = selection.priority,
          .refused = [](const Decision& decision) {
            for (const std::string& warning : decision.warnings) warn(warning);
          }};
}

Result<machine::Reservation> reserve_heeding_signals(const Machine& machine, machine::ReservationRequest request,
                                                     const machine::Holder& holder) {
  const StopOnSignals signals;
  return machine::reserve(machine, std::move(request), holder, system_clock(), signals.token());
}

Result<machine::Reservation> acquire(const Machine& machine, const Selection& selection, bool hold,
                                     const machine::Holder& holder, Decision* refused) {
  machine::ReservationRequest request = reservation_of(selection, hold);
  request.refused = [refused, warns = request.refused](const Decision& decision) {
    warns(decision);
    if (refused != nullptr) *refused = decision;
  };
  return reserve_heeding_signals(machine, std::move(request), holder);
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
