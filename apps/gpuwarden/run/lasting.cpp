// SPDX-License-Identifier: Apache-2.0
#include "run/lasting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "acquire.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/healing/supply.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "gpuwarden/slurm/words.hpp"
#include "run/other_launchers.hpp"

namespace gpuwarden::cli {
namespace {

using std::chrono::milliseconds;

std::unexpected<Error> refuse_as(std::string what, std::string hint = {}) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

/// "USR1", "SIGUSR1", "10"; 0: unknown.
int signal_from(std::string_view text) {
  if (const auto number = parse_integer(text)) return *number > 0 && *number < NSIG ? static_cast<int>(*number) : 0;
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = sigabbrev_np(signal);
    if (name != nullptr && text == name) return signal;
  }
  return 0;
}

/// When Slurm ends the job (its SLURM_JOB_END_TIME: seconds since 1970), from now.
std::optional<milliseconds> left_by_slurm(const Environment& environment) {
  const auto found = environment.find("SLURM_JOB_END_TIME");
  const auto end = found == environment.end() ? std::nullopt : parse_integer(found->second);
  if (!end || *end <= 0) return std::nullopt;
  const auto time = std::chrono::system_clock::time_point(std::chrono::seconds(*end));
  return std::chrono::duration_cast<milliseconds>(time - system_clock().wall_now());
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
    const auto early = parse_early_signal(*text);
    if (!early) return std::unexpected(about("signal", early.error()));
    limit = *early;
  }
  GPUWARDEN_TRY(const auto own, time_limit_option(context.args));
  const auto slurm = left_by_slurm(context.environment);
  if (limit.signal != 0 && !own && !slurm)
    return refuse_as("--signal requires --time-limit", "or a Slurm job, whose end is known");
  if (own && own->count() == 0) return refuse_as("--time-limit must be greater than 0");
  if (own && limit.signal != 0 && limit.before >= *own)
    return refuse_as(fmt::format("--signal: {} before the end is before the job begins: its time limit is {}",
                                 format_duration(limit.before), format_duration(*own)));
  const auto now = system_clock().now();
  if (own && (!slurm || *own <= *slurm)) {
    limit.end = now + *own;
  } else if (slurm && (own || limit.signal != 0)) {
    // Slurm ends the job itself.
    limit.end = now + *slurm;
    limit.ends_job = false;
  }
  return limit;
}

Result<launch::TimeLimit> parse_early_signal(const std::string& text) {
  std::string_view rest = text;
  // Slurm's R: and B: say whether the batch shell hears it; here the ranks do.
  if (rest.starts_with("R:") || rest.starts_with("B:")) rest.remove_prefix(2);
  const std::size_t at = rest.find('@');
  launch::TimeLimit limit;
  limit.signal = signal_from(rest.substr(0, at));
  if (limit.signal == 0)
    return refuse_as(fmt::format("'{}' is not a signal", printable(rest.substr(0, at))), "for example USR1@60");
  if (at == std::string_view::npos) return limit;
  const std::string_view time = rest.substr(at + 1);
  const auto seconds = parse_integer(time);
  if (seconds && *seconds >= 0 && *seconds < 1000000000) {
    limit.before = std::chrono::seconds(*seconds);
    return limit;
  }
  GPUWARDEN_TRY(limit.before, parse_duration(time));
  return limit;
}

Result<void> check_lasting(const Context& context, const Selection& selection) {
  GPUWARDEN_CHECK(read_time_limit(context));
  GPUWARDEN_CHECK(duration_option(context.args, "probation"));
  GPUWARDEN_TRY(const RendezvousTimes times, rendezvous_times(context.args));
  if (!context.args.has("quiet")) {
    for (const std::string& sentence : times.needless) warn(sentence);
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
    GPUWARDEN_TRY(const RendezvousTimes times, rendezvous_times(args));
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
