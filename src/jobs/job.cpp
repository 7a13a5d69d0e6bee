// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/job.hpp"

#include <fmt/format.h>

#include <csignal>

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

/// Pauses and meetings of nodes, which end with the job as its ranks do.
class Pauses {
 public:
  explicit Pauses(const healing::Options& options)
      : attend_(options.attend ? options.attend : [stop = options.run.stop](const Wait& wait) { wait(stop); }) {}
  void attend_to(healing::Options& options, Clock& clock) {
    options.attend = [this](const Wait& wait) { attend(wait); };
    options.pause = [this, &clock](std::chrono::milliseconds pause) {
      attend([&](const std::stop_token& stop) { clock.sleep_for(pause, stop); });
      return !ended_;
    };
  }
  Result<machine::Reservation> reserve(const machine::Machine& machine, const machine::ReservationRequest& request,
                                       const machine::Holder& holder, Clock& clock) {
    Result<machine::Reservation> held = fail(ErrorCode::interrupted, "interrupted");
    attend([&](const std::stop_token& stop) { held = machine::reserve(machine, request, holder, clock, stop); });
    // It came together with what was waited for.
    if (ended_ && held) return fail(ErrorCode::interrupted, "interrupted");
    return held;
  }
  void tell(launch::JobEnd& end) const {
    if (!ended_) return;
    end.interrupted_by = SIGTERM;
    end.exit_code = 128 + SIGTERM;
  }

 private:
  using Wait = std::function<void(const std::stop_token&)>;
  void attend(const Wait& wait) {
    attend_([&](const std::stop_token& stop) {
      wait(stop);
      ended_ = ended_ || stop.stop_requested();
    });
  }

  std::function<void(const Wait&)> attend_;
  bool ended_ = false;
};

}  // namespace

Result<machine::Reservation> hold_gpus(const Job& job, const machine::Machine& machine, Clock& clock,
                                       const std::stop_token& stop, placement::Decision* refused) {
  if (job.gpus.gpus.force_cpu) return machine::Reservation::of_cpu();
  machine::ReservationRequest request = job.gpus;
  request.refused = [refused, hear = job.gpus.refused](const placement::Decision& decision) {
    if (hear) hear(decision);
    if (refused != nullptr) *refused = decision;
  };
  auto held = machine::reserve(machine, std::move(request), holder_of(job), clock, stop);
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
    if (job.options.starting) job.options.starting(spec, held);
  };
  Pauses pauses(options);
  pauses.attend_to(options, clock);
  const machine::Holder holder = holder_of(job);
  healing::supply(
      job.gpus,
      {.between_tries = [&](const auto& request) { return pauses.reserve(machine, request, holder, clock); },
       .while_ranks_run = [&](const auto& request) { return machine::reserve(machine, request, holder, clock); }},
      options);
  auto healed = healing::run(job.plan, machine, std::move(gpus), options, clock);
  if (healed) pauses.tell(healed->report.end);
  if (status.problem() && options.run.warning) options.run.warning(job.said.about("status", *status.problem()).message);
  return healed;
}

}  // namespace gpuwarden::jobs
