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

Result<jobs::Job> read_job(const Context& context, const Selection& selection) {
  GPUWARDEN_TRY(jobs::Job job, jobs::job_from(context.args, {.argv = context.args.rest,
                                                             .environment = context.environment,
                                                             .config = selection.config,
                                                             .gpus = reservation_of(selection)}));
  if (!context.args.has("quiet")) {
    for (const std::string& sentence : job.needless) warn("--rdzv-conf: " + sentence);
  }
  return job;
}

void show_model_fit(const Decision& decision) {
  if (decision.satisfied && decision.model) say("gpuwarden: {}\n", decision.model->reason);
}

void show_warnings(const machine::Reservation& reservation, const Machine& machine) {
  for (const std::string& warning : machine::warnings_of(reservation, machine)) warn(warning);
}

}  // namespace gpuwarden::cli
