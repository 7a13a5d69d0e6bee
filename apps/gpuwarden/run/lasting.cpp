// SPDX-License-Identifier: Apache-2.0
#include "run/lasting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "acquire.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/healing/supply.hpp"
#include "gpuwarden/launch/time_limit.hpp"
#include "gpuwarden/launch/torchrun_words.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "gpuwarden/slurm/words.hpp"
#include "run/other_launchers.hpp"

namespace gpuwarden::cli {
namespace {

using std::chrono::milliseconds;

std::unexpected<Error> refuse_as(std::string what, std::string hint = {}) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

/// Of --rdzv-conf, in which torchrun has how long nodes wait for each other.
Result<launch::RendezvousTimes> rendezvous_times(const Args& args) {
  auto times = launch::parse_rendezvous_times(args.text("rdzv-conf").value_or(""));
  if (!times) return std::unexpected(about("rdzv-conf", times.error()));
  return times;
}

/// Of --straggler: the word, and that there is something to restart with.
Result<void> check_straggler(const Args& args) {
  const auto word = args.text("straggler");
  if (!word || word == "warn") return {};
  if (word != "restart")
    return refuse_as(fmt::format("--straggler: '{}' is not known", printable(*word)), "warn or restart");
  if (args.text("max-restarts").value_or("0") == "0")
    return refuse_as("--straggler restart needs --max-restarts", "how often the job may be started again");
  if (args.has("gpu-ids"))
    return refuse_as("--straggler restart and --gpu-ids cannot be used together",
                     "GPUs that are named are not replaced: -n N");
  return {};
}

/// "2h", or Slurm's forms with a colon: 30:00, 2:00:00, 1-12:00:00. A bare number is minutes in Slurm and seconds
/// elsewhere: which is meant must be said.
Result<std::optional<milliseconds>> time_limit_option(const Args& args) {
  const auto text = args.text("time-limit");
  if (!text) return std::nullopt;
  if (text->contains(':')) {
    const auto time = slurm::parse_time(*text);
    if (time && *time <= std::chrono::days(3650)) return milliseconds(*time);
    return refuse_as(fmt::format("--time-limit: '{}' is not a time", printable(*text)),
                     "2h, 90m, or as in Slurm 30:00, 2:00:00, 1-12:00:00");
  }
  if (parse_number(*text))
    return refuse_as(fmt::format("--time-limit: {} has no unit", printable(*text)),
                     fmt::format("write {0}s or {0}m (Slurm's {0} is minutes), or 0:30:00", printable(*text)));
  return duration_option(args, "time-limit");
}

}  // namespace

Result<launch::TimeLimit> read_time_limit(const Context& context) {
  launch::TimeLimit limit;
  if (const auto text = context.args.text("signal")) {
    const auto early = launch::parse_early_signal(*text);
    if (!early) return std::unexpected(about("signal", early.error()));
    limit = *early;
  }
  GPUWARDEN_TRY(const auto own, time_limit_option(context.args));
  const auto slurm = launch::left_by_slurm(context.environment, system_clock().wall_now());
  if (limit.signal != 0 && !own && !slurm)
    return refuse_as("--signal requires --time-limit", "or a Slurm job, whose end is known");
  if (own && own->count() == 0) return refuse_as("--time-limit must be greater than 0");
  if (own && limit.signal != 0 && limit.before >= *own)
    return refuse_as(fmt::format("--signal: {} before the end is before the job begins: its time limit is {}",
                                 format_duration(limit.before), format_duration(*own)));
  return launch::with_end(limit, own, slurm, system_clock().now());
}

Result<void> check_lasting(const Context& context, const Selection& selection) {
  GPUWARDEN_CHECK(read_time_limit(context));
  GPUWARDEN_CHECK(duration_option(context.args, "probation"));
  GPUWARDEN_TRY(const launch::RendezvousTimes times, rendezvous_times(context.args));
  if (!context.args.has("quiet")) {
    for (const std::string& sentence : times.needless) warn("--rdzv-conf: " + sentence);
  }
  GPUWARDEN_CHECK(check_straggler(context.args));
  if (context.args.has("checkpoint") && !selection.least && !context.args.text("nnodes").value_or("").contains(':'))
    return refuse_as("--checkpoint requires a range of GPUs or nodes", "for example -n 2:4");
  return {};
}

Result<void> make_lasting(const Context& context, const machine::Machine& machine, const Selection& selection,
                          const launch::RunPlan& plan, healing::Options& options) {
  const Args& args = context.args;
  GPUWARDEN_TRY(options.run.time_limit, read_time_limit(context));
  GPUWARDEN_TRY(const auto probation, duration_option(args, "probation"));
  options.probation = probation.value_or(options.probation);
  options.cpu_fallback = args.has("cpu-fallback");
  options.checkpoint = args.text("checkpoint").value_or("");
  options.replaces_stragglers = args.text("straggler") == "restart";
  options.meeting = healing::meeting_of(plan, options.policy, selection.least.has_value());
  if (options.meeting) {
    GPUWARDEN_TRY(const launch::RendezvousTimes times, rendezvous_times(args));
    options.meeting->patience = times.join.value_or(options.meeting->patience);
    options.meeting->last_call = times.last_call.value_or(options.meeting->last_call);
  }
  const machine::Holder holder{plan.job.run_id, join(plan.job.argv, " ")};
  healing::Reserving reserving;
  reserving.between_tries = [&machine, holder](const machine::ReservationRequest& request) {
    return reserve_heeding_signals(machine, request, holder);
  };
  reserving.while_ranks_run = [&machine, holder](const machine::ReservationRequest& request) {
    return machine::reserve(machine, request, holder, system_clock());
  };
  healing::supply(reservation_of(selection), reserving, options);
  return {};
}

}  // namespace gpuwarden::cli
