// SPDX-License-Identifier: Apache-2.0
#include "slurm/run_job.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "render/slurm_text.hpp"
#include "run/report_text.hpp"
#include "slurm/job_options.hpp"
#include "slurm/request.hpp"

namespace gpuwarden::cli {
namespace {

constexpr std::chrono::seconds kSecondThoughts{3};

/// `logs`: the folder in which the nodes' logs are.
slurm::FollowHooks follow_hooks(bool quiet, const std::string& logs) {
  slurm::FollowHooks hooks;
  hooks.output = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  hooks.warning = [](const std::string& text) { warn(text); };
  if (quiet) return hooks;
  hooks.changed = [](const slurm::Job& job) {
    // What has ended is told at the end.
    if (!slurm::is_over(job) && job.state != "COMPLETING") say("gpuwarden: {}\n", job_line(job));
  };
  hooks.summary = [logs](const slurm::Job& job) {
    const std::string text =
        statuses_text(slurm::read_statuses(slurm::logs_of(logs, job.id), job.nodes, system_clock().wall_now()));
    if (!text.empty()) say("gpuwarden: {}\n{}", job_progress(job), text);
    return !text.empty();
  };
  hooks.still = [](const slurm::Job& job) { say("gpuwarden: {}\n", job_progress(job)); };
  return hooks;
}

/// After a first Ctrl-C: how to go on, and a second one cancels.
int leave(slurm::Programs& programs, const std::string& id, const Error& error) {
  if (error.code != ErrorCode::interrupted) return complain(error);
  const int signal = StopOnSignals::last_signal();
  say("\ngpuwarden: job {} goes on\n  follow it again: gpuwarden slurm follow {}\n  cancel it: scancel {}\n", id, id,
      id);
  if (signal == SIGINT) {
    say("  or press Ctrl-C once more within {} s to cancel it now\n", kSecondThoughts.count());
    const StopOnSignals again;
    if (!system_clock().sleep_for(kSecondThoughts, again.token())) {
      const auto cancelled = slurm::cancel(programs, id);
      if (!cancelled) return complain(cancelled.error());
      say("gpuwarden: job {} is cancelled\n", id);
    }
  }
  return kSignalled + signal;
}

/// A log that never came to be is told: the job's own words would stand there.
void tell_missing_log(const slurm::Job& job, const std::string& log) {
  std::error_code ignored;
  if (std::filesystem::exists(log, ignored)) return;
  complain(Error{ErrorCode::not_found, fmt::format("job {} has left no log {}", job.id, printable(log)),
                 "the nodes must be able to write there: --log-dir names a folder on a file system that they share"});
}

int tell_end(const Context& context, const slurm::Outcome& outcome) {
  const int code = slurm::exit_code_of(outcome);
  if (!context.args.has("quiet")) say("gpuwarden: {}, exit code {}\n", job_line(outcome.job), code);
  tell_missing_log(outcome.job, slurm::log_of(outcome.log_directory, outcome.job.id));
  const auto style = style_of(context);
  if (style && !context.args.has("quiet") && !context.args.has("no-report")) {
    say("{}", reports_text(outcome.reports, *style));
    say("  logs: {}\n", printable(slurm::logs_of(outcome.log_directory, outcome.job.id)));
  }
  const auto file = context.args.text("report");
  return file ? write_reports({{*file, facts::json_text(slurm::to_json(outcome))}}, code) : code;
}

}  // namespace

Result<void> check_slurm_options(const Args& args) {
  if (args.has("slurm")) return {};
  const auto check = [&](const Option& option) -> Result<void> {
    const std::string key = key_of(option);
    if (!args.has(key)) return {};
    return fail(ErrorCode::invalid_argument, fmt::format("--{} needs --slurm", key),
                "gpuwarden run --slurm runs the command as a job of Slurm");
  };
  for (const Option& option : kSlurmRunOptions) GPUWARDEN_CHECK(check(option));
  for (const Option& option : kSlurmJobOptions) GPUWARDEN_CHECK(check(option));
  return {};
}

Result<int> print_slurm_script(Context& context) {
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const jobs::SlurmJob asked, read_slurm_job(context, *programs, slurm::read_site_if_any));
  GPUWARDEN_TRY(const std::string script, slurm::sbatch_script(asked.job));
  fmt::print("{}", script);
  for (const std::string& decision : asked.decisions) say("gpuwarden: {}\n", decision);
  return kFine;
}

Result<int> run_on_slurm(Context& context) {
  if (context.args.has("dry-run")) return print_slurm_script(context);
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const jobs::SlurmJob asked, read_slurm_job(context, *programs, slurm::read_site));
  GPUWARDEN_CHECK(jobs::check_outputs(context.args));
  const bool quiet = context.args.has("quiet");
  if (!quiet) {
    for (const std::string& decision : asked.decisions) say("gpuwarden: {}\n", decision);
  }
  if (context.args.has("no-follow")) {
    GPUWARDEN_TRY(const std::string id, slurm::submit(*programs, asked.job));
    fmt::print("{}\n", id);
    return kFine;
  }
  std::string id;
  slurm::Hooks hooks{.follow = follow_hooks(quiet, asked.log_directory)};
  hooks.submitted = [&](const std::string& job) {
    id = job;
    if (!quiet) say("gpuwarden: submitted job {}, log {}\n", id, slurm::log_of(asked.log_directory, id));
  };
  hooks.failed = [](const slurm::Attempt& attempt) { say("{}", slurm_attempt_text(attempt)); };
  Result<slurm::Outcome> outcome;
  {
    const StopOnSignals signals;
    hooks.follow.stop = signals.token();
    outcome = slurm::run(*programs, asked.job, asked.policy, hooks, system_clock());
  }
  if (outcome) return tell_end(context, *outcome);
  if (id.empty()) return std::unexpected(outcome.error());
  return leave(*programs, id, outcome.error());
}

Result<int> follow_slurm_job(const Context& context, const std::string& id) {
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const slurm::Job known, slurm::find_job(*programs, id));
  Result<slurm::Job> job;
  {
    const StopOnSignals signals;
    slurm::FollowHooks hooks = follow_hooks(false, std::filesystem::path(known.log).parent_path().string());
    hooks.stop = signals.token();
    job = slurm::follow(*programs, id, known.log, hooks, system_clock());
  }
  if (!job) return leave(*programs, id, job.error());
  slurm::Outcome outcome{.job = *job, .log_directory = std::filesystem::path(known.log).parent_path().string()};
  outcome.reports = slurm::read_reports(slurm::logs_of(outcome.log_directory, id), job->nodes);
  return tell_end(context, outcome);
}

}  // namespace gpuwarden::cli
