// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/job.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/healing/supply.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/launch/record_job.hpp"
#include "gpuwarden/launch/status_file.hpp"
#include "gpuwarden/machine/reserve.hpp"

namespace gpuwarden::jobs {
namespace {

/// Without a GPU the job may run on the CPU: the driver absent, no GPU in the machine, or none to be had.
bool may_be_none(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::unsatisfied || code == ErrorCode::timed_out ||
         code == ErrorCode::permission_denied;
}

machine::Holder holder_of(const Job& job) { return {job.plan.job.run_id, job.command}; }

std::vector<launch::StatusGpu> gpus_of(const machine::Reservation& held) {
  std::vector<launch::StatusGpu> gpus;
  for (const auto& device : held.decision().selected) gpus.push_back({device.uuid, device.index});
  return gpus;
}

/// Pauses and meetings of nodes, in which signals end the job as they do while ranks run.
class Pauses {
 public:
  void attend_to(healing::Options& options, Clock& clock) {
    options.attend = [this](const std::function<void(const std::stop_token&)>& wait) {
      const StopOnSignals signals;
      wait(signals.token());
      ended_ = ended_ || signals.token().stop_requested();
    };
    options.pause = [this, &clock](std::chrono::milliseconds pause) {
      const StopOnSignals signals;
      ended_ = !clock.sleep_for(pause, signals.token());
      return !ended_;
    };
  }
  void tell(launch::JobEnd& end) const {
    if (!ended_) return;
    end.interrupted_by = StopOnSignals::last_signal();
    end.exit_code = 128 + StopOnSignals::last_signal();
  }

 private:
  bool ended_ = false;
};

}  // namespace

Result<machine::Reservation> hold_gpus(const Job& job, const machine::Machine& machine, placement::Decision* refused) {
  if (job.gpus.gpus.force_cpu) return machine::Reservation::of_cpu();
  machine::ReservationRequest request = job.gpus;
  request.refused = [refused, hear = job.gpus.refused](const placement::Decision& decision) {
    if (hear) hear(decision);
    if (refused != nullptr) *refused = decision;
  };
  auto held = machine::reserve_heeding_signals(machine, std::move(request), holder_of(job));
  if (held || !job.options.cpu_fallback || !may_be_none(held.error().code)) return held;
  if (job.options.run.warning) job.options.run.warning(fmt::format("{}: running on the CPU", held.error().message));
  return machine::Reservation::of_cpu();
}

Result<std::unique_ptr<recording::Recorder>> open_recorder(const Job& job, const machine::Reservation& gpus,
                                                           Clock& clock) {
  const auto file = job.said.text("record");
  if (!file || gpus.decision().cpu) return nullptr;
  GPUWARDEN_TRY(auto options, launch::recorder_options(gpus, job.plan.job, job.options.run.sample_period));
  options.file = *file;
  options.if_it_exists = job.said.spelled("name another file with --record, or remove this one where nobody needs it");
  return recording::Recorder::open(std::move(options), clock);
}

Result<healing::Healed> run(const Job& job, const machine::Machine& machine, machine::Reservation gpus, Clock& clock) {
  healing::Options options = job.options;
  GPUWARDEN_TRY(options.run.time_limit, time_limit_from(job.said, job.plan.job.environment, clock));
  launch::StatusFile status(job.said.text("status").value_or(""));
  if (job.said.has("status")) options.run.glance = [&](const telemetry::Reading& reading) { status.hear(reading); };
  options.starting = [&](launch::JobSpec& spec, const machine::Reservation& held) {
    status.hold(gpus_of(held));
    spec.takes_signals = true;
    if (job.options.starting) job.options.starting(spec, held);
  };
  Pauses pauses;
  pauses.attend_to(options, clock);
  const machine::Holder holder = holder_of(job);
  healing::supply(
      job.gpus,
      {.between_tries = [&](const auto& request) { return machine::reserve_heeding_signals(machine, request, holder); },
       .while_ranks_run = [&](const auto& request) { return machine::reserve(machine, request, holder, clock); }},
      options);
  auto healed = healing::run(job.plan, machine, std::move(gpus), options, clock);
  if (healed) pauses.tell(healed->report.end);
  if (status.problem() && options.run.warning) options.run.warning(job.said.about("status", *status.problem()).message);
  return healed;
}

}  // namespace gpuwarden::jobs
