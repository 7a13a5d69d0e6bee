// SPDX-License-Identifier: Apache-2.0
#include "run/lasting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "acquire.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "gpuwarden/placement/names.hpp"

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

/// Where several nodes agree, if there is anything to agree on.
std::optional<healing::MeetingPlace> meeting_of(const launch::RunPlan& plan, const healing::RestartPolicy& policy,
                                                bool elastic) {
  const launch::JobSpec& job = plan.job;
  const std::uint32_t least = plan.least_nodes.value_or(job.nodes);
  if (job.nodes < 2 || (policy.max_restarts == 0 && least == job.nodes && !elastic)) return std::nullopt;
  healing::MeetingPlace place{.node = job.node_rank, .least = least, .most = job.nodes};
  place.address = job.master_address;
  place.key = job.rendezvous_id.empty() ? fmt::format("{}:{}", job.master_address, job.master_port.value_or(0))
                                        : job.rendezvous_id;
  return place;
}

/// As acquire() without those GPUs. One that is lost just then does not tell its UUID any more, by which it was to be
/// left out: it is looked for again.
Result<machine::Reservation> acquire_without(const machine::Machine& machine, const Selection& selection,
                                             const std::vector<Uuid>& without, const machine::Holder& holder) {
  constexpr int kMostTimes = 5;
  for (int times = 1;; ++times) {
    Selection others = selection;
    leave_out(without, machine, others.request);
    auto gpus = acquire(machine, others, true, holder);
    const bool unknown =
        !gpus && (gpus.error().code == ErrorCode::not_found || gpus.error().code == ErrorCode::invalid_argument);
    if (!unknown || without.empty() || times == kMostTimes) return gpus;
  }
}

}  // namespace

void leave_out(const std::vector<Uuid>& without, const machine::Machine& machine, placement::Request& request) {
  if (without.empty()) return;
  const facts::Snapshot there = machine.read();
  for (const Uuid& uuid : without) {
    std::vector<placement::GpuName> name{{uuid.value}};
    facts::Snapshot one = there;
    if (placement::keep_named(name, one)) request.exclude.push_back(std::move(name[0]));
  }
}

Result<launch::TimeLimit> read_time_limit(const Context& context) {
  launch::TimeLimit limit;
  if (const auto text = context.args.text("signal")) {
    const auto early = parse_early_signal(*text);
    if (!early) return std::unexpected(about("signal", early.error()));
    limit = *early;
  }
  GPUWARDEN_TRY(const auto own, duration_option(context.args, "time-limit"));
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
  if (context.args.has("checkpoint") && !selection.least && !context.args.text("nnodes").value_or("").contains(':'))
    return refuse_as("--checkpoint requires a range of GPUs or nodes", "for example -n 2:4");
  return {};
}

Result<void> make_lasting(const Context& context, const machine::Machine& machine, const Selection& selection,
                          const launch::RunPlan& plan, healing::Options& options) {
  GPUWARDEN_TRY(options.run.time_limit, read_time_limit(context));
  GPUWARDEN_TRY(const auto probation, duration_option(context.args, "probation"));
  options.probation = probation.value_or(options.probation);
  options.cpu_fallback = context.args.has("cpu-fallback");
  options.checkpoint = context.args.text("checkpoint").value_or("");
  options.meeting = meeting_of(plan, options.policy, selection.least.has_value());
  const machine::Holder holder{plan.job.run_id, join(plan.job.argv, " ")};
  // GPUs that were named are those, and no others.
  if (!selection.request.gpu_ids.empty() || selection.request.force_cpu) return {};
  options.other_gpus = [&machine, selection, holder](const std::vector<Uuid>& without) {
    return acquire_without(machine, selection, without, holder);
  };
  if (!selection.least) return {};
  healing::Elastic elastic{.least = *selection.least, .most = selection.request.count.value_or(1)};
  elastic.more = [&machine, selection, holder](std::uint32_t least, std::uint32_t most,
                                               const std::vector<Uuid>& without) -> Result<machine::Reservation> {
    Selection more = selection;
    more.request.count = most;
    more.least = std::max(least, 1U);
    if (least > 0) return acquire_without(machine, more, without, holder);
    // Ranks may be running, whose launcher has the signals: nobody waits then.
    leave_out(without, machine, more.request);
    return machine::reserve(machine, {.gpus = more.request, .least = 1}, holder, system_clock());
  };
  options.elastic = std::move(elastic);
  return {};
}

}  // namespace gpuwarden::cli
