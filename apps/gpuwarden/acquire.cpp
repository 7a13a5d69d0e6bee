// SPDX-License-Identifier: Apache-2.0
#include "acquire.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/stop_on_signals.hpp"

namespace gpuwarden::cli {

using placement::Decision;

Result<machine::Reservation> acquire(const Machine& machine, const Selection& selection, bool hold,
                                     const machine::Holder& holder) {
  const StopOnSignals signals;
  const auto tell = [](const Decision& refused) {
    for (const std::string& warning : refused.warnings) warn(warning);
  };
  return machine::reserve(machine, {.gpus = selection.request, .hold = hold, .wait = selection.wait, .refused = tell},
                          holder, system_clock(), signals.token());
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
