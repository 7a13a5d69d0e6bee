// SPDX-License-Identifier: Apache-2.0
// gpuwarden run: chooses, leases, runs, reports.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/jobs/job.hpp"
#include "gpuwarden/jobs/on_hosts.hpp"
#include "gpuwarden/launch/report.hpp"
#include "gpuwarden/placement/export.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "hosts/run_on_hosts.hpp"
#include "leftovers.hpp"
#include "machine.hpp"
#include "plan/workload_options.hpp"
#include "recording.hpp"
#include "run/other_launchers.hpp"
#include "run/report_text.hpp"
#include "shared_options.hpp"
#include "slurm/job_options.hpp"
#include "slurm/run_job.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kRunOptions = std::to_array<Option>({
    {"--nproc-per-node", OptionKind::text, "N|MIN:MAX|gpu|cpu",
     "how many ranks (1), each with a GPU unless -n says how many; gpu, auto, MIN:MAX: one for each GPU, cpu: for each "
     "CPU",
     "gpu auto cpu"},
    {"--one-gpu-per-rank", OptionKind::flag, "", "each rank sees only its own GPU, as device 0", "", "",
     "--virtual-local-rank"},
    {"-m,--module", OptionKind::flag, "", "the command is a Python module and its arguments"},
    {"--run-path", OptionKind::flag, "", "torchrun's: the command is a Python program, executable or not"},
    {"--no-python", OptionKind::flag, "", "torchrun's: the command is no Python program (which is found out anyway)"},
    {"--numa-binding", OptionKind::text, "node|socket|exclusive|core-complex", "bind each rank to CPUs near its GPU",
     "node socket exclusive core-complex"},
    {"--role", OptionKind::text, "NAME", "ROLE_NAME of the ranks (default)"},
    {"--standalone", OptionKind::flag, "", "torchrun's: one node, a free port (as without it)"},
    {"--nnodes", OptionKind::text, "N|MIN:MAX", "how many nodes take part (1); MIN:MAX: as many as there are of these"},
    {"--node-rank", OptionKind::text, "R", "which of them this is (Slurm's, else 0)"},
    {"--master-addr", OptionKind::text, "HOST", "address of node 0 (127.0.0.1)"},
    {"--master-port", OptionKind::text, "PORT", "port of rank 0 (a free one)"},
    {"--rdzv-endpoint", OptionKind::text, "HOST[:PORT]", "both of these at once (port 29400)"},
    {"--rdzv-id", OptionKind::text, "ID", "the job's name on all nodes; without a port the port follows from it"},
    {"--rdzv-backend", OptionKind::text, "c10d|static", "torchrun's: either is the same here", "c10d static"},
    {"--rdzv-conf", OptionKind::text, "KEY=VALUE,...",
     "how long nodes wait: join_timeout=600 s for all of them, last_call_timeout=10 s for more than the least"},
    {"--log-dir", OptionKind::text, "DIR", "keep each rank's output there"},
    {"-r,--redirects", OptionKind::text, "STREAMS",
     "only into the log: 1 output, 2 errors, 3 both; of single ranks 0:3,12:1"},
    {"-t,--tee", OptionKind::text, "STREAMS", "into the log and to the terminal, named likewise"},
    {"--local-ranks-filter", OptionKind::text, "RANK,...", "show the output of these LOCAL_RANKs alone"},
    {"--grace", OptionKind::text, "DURATION", "time between asking a job to end and killing it (10s)"},
    {"--max-restarts", OptionKind::text, "N",
     "start the job again after a failure that may pass, so often at most (0)"},
    {"--heal", OptionKind::flag, "", "with the settings that keep the failure's cause from coming back"},
    {"--restart-delay", OptionKind::text, "DURATION", "before the first restart; doubled with each one (1s)"},
    {"--restart-arg", OptionKind::repeated, "WORD", "added to the command of each restart: --restart-arg=--resume"},
    {"--hang-timeout", OptionKind::text, "DURATION",
     "end a job that prints nothing and does no work for so long (never)"},
    {"--straggler", OptionKind::text, "warn|restart",
     "a GPU far behind the job's others: warn of it, or start again without it (warn)", "warn restart"},
    {"--checkpoint", OptionKind::text, "FILE",
     "with -n or --nnodes MIN:MAX: when this is written, the job may be started again with more"},
    {"--probation", OptionKind::text, "DURATION",
     "a GPU that failed is used again when it has been well for so long (1m)"},
    {"--time-limit", OptionKind::text, "DURATION",
     "end the job after so long (2h, 2:00:00), with exit code 124 (never)"},
    {"--signal", OptionKind::text, "SIGNAL[@SECONDS]",
     "send this to the ranks so long before the end of their time, Slurm's too: USR1@60"},
    {"--post-mortem", OptionKind::text, "FILE",
     "where the job fails, write why as JSON, for gpuwarden report (--log-dir's post-mortem.json)"},
    {"--cpu-fallback", OptionKind::flag, "", "run on the CPU where no GPU is available, or all have failed"},
    {"--report", OptionKind::text, "FILE", "write the final report as JSON"},
    {"--status", OptionKind::text, "FILE", "keep in this file what the GPUs do just now, as JSON, for whoever follows"},
    {"--record", OptionKind::text, "FILE", "keep what the GPUs did, for gpuwarden report"},
    {"--no-report", OptionKind::flag, "", "print no report"},
    {"--sample-period", OptionKind::text, "DURATION", "how often the GPUs are read meanwhile (1s)"},
    {"--sim-load", OptionKind::text, "SPEC", "what a job pretends to use on a simulated fleet (memory=1GiB,util=60)"},
    {"--end-leftovers", OptionKind::text, "RUN", "end what is left of a run whose launcher was killed"},
    {"-q,--quiet", OptionKind::flag, "", "say nothing but errors"},
});

void announce(const machine::Reservation& acquired, const launch::JobSpec& spec) {
  show_model_fit(acquired.decision());
  say("gpuwarden: {}{} on {}, run {}\n", acquired.snapshot().simulated ? "[simulated] " : "",
      spec.ranks == 1 ? "1 process" : fmt::format("{} ranks", spec.ranks),
      printable(placement::in_words(acquired.decision())), spec.run_id);
}

/// What is said while the job runs.
void tell_how_it_goes(const Context& context, const Style& style, healing::Options& options) {
  const bool quiet = context.args.has("quiet");
  const bool reports = !quiet && !context.args.has("no-report");
  options.run.warning = [](const std::string& text) { warn(text); };
  // Where no ranks run, signals end the job as they do while some do.
  options.attend = [](const std::function<void(const std::stop_token&)>& wait) {
    const StopOnSignals signals;
    wait(signals.token());
  };
  options.starting = [&context, quiet](launch::JobSpec& job, const machine::Reservation& held) {
    job.takes_signals = true;
    job.record_directory = lease_directory(context);
    if (!quiet) announce(held, job);
  };
  options.failed = [reports, style, once = options.policy.max_restarts == 0](const healing::Attempt& attempt) {
    if (reports) say("{}", attempt_text(attempt, once && !attempt.restarts, style));
  };
  options.gave_up = [](const healing::Attempt& attempt) { say("{}", no_restart_text(attempt)); };
  options.regrouped = [quiet](const std::string& why) {
    if (!quiet) say("\ngpuwarden: {}\n", why);
  };
}

/// Where it is kept why a job failed: with its logs, unless another place was named.
std::optional<std::string> post_mortem_file(const Context& context, const launch::JobSpec& job) {
  if (auto file = context.args.text("post-mortem")) return file;
  if (!job.log_directory || job.node_rank != 0) return std::nullopt;
  return (*job.log_directory / "post-mortem.json").string();
}

int finish(const Context& context, const launch::JobSpec& job, const healing::Healed& healed) {
  const int code = healed.report.end.exit_code;
  for (const std::string& warning : launch::gpu_warnings(healed.report)) warn(warning);
  if (!context.args.has("no-report") && !context.args.has("quiet"))
    say("{}", run_report_text(healed.report, healed.total));
  const auto text = [&] {
    return facts::json_text(healing::to_json(healed, redact::secret_values(context.environment)));
  };
  std::vector<ReportFile> files;
  if (const auto file = context.args.text("report")) files.push_back({*file, text()});
  if (const auto file = code == kFine ? std::nullopt : post_mortem_file(context, job)) files.push_back({*file, text()});
  return write_reports(files, code);
}

/// The job, as often as it takes, on GPUs that are held.
int run_held(const Context& context, const Machine& machine, machine::Reservation gpus, jobs::Job job) {
  const auto recorder = jobs::open_recorder(job, gpus, system_clock());
  if (!recorder) return complain(recorder.error());
  if (*recorder) job.options.run.hear = recording_into(**recorder);
  auto healed = jobs::run(job, machine, std::move(gpus), system_clock());
  if (const int signal = StopOnSignals::last_signal(); healed && healed->report.end.interrupted_by && signal != 0) {
    healed->report.end.interrupted_by = signal;
    healed->report.end.exit_code = kSignalled + signal;
  }
  if (*recorder) {
    (*recorder)->finish(healed ? std::optional(healed->report.end.exit_code) : std::nullopt);
    say_losses((*recorder)->progress());
  }
  if (healed) return finish(context, job.plan.job, *healed);
  // Nothing was started yet: the other nodes were waited for.
  if (healed.error().code == ErrorCode::interrupted) return complain(healed.error());
  return refuse_program(healed.error());
}

Result<machine::Reservation> hold_gpus(const jobs::Job& job, const Machine& machine, placement::Decision& refused) {
  const StopOnSignals signals;
  return jobs::hold_gpus(job, machine, system_clock(), signals.token(), &refused);
}

int complain_of_gpus(const Args& args, const Selection& selection, const Error& error) {
  Error told = refusal_of(args, selection, error);
  if (told.code == ErrorCode::unavailable)
    told.hint += (told.hint.empty() ? "" : "; ") + std::string("--cpu-fallback runs the job on the CPU instead");
  return complain(told);
}

/// What means nothing together: told, not left out in silence.
Result<void> check_what_is_asked(const Args& args) {
  GPUWARDEN_CHECK(refuse_json(args, "run", "--report - prints its report as JSON at the end"));
  GPUWARDEN_CHECK(check_slurm_options(args));
  if (args.has("slurm") && args.has("gpus"))
    return fail(ErrorCode::invalid_argument, "--slurm and --gpus mean nothing together",
                "--nodes N --gpus-per-node M says how many each node has");
  if (args.has("gpus") && !args.has("slurm") && !jobs::names_hosts(args))
    return fail(ErrorCode::invalid_argument, "--gpus requires --hosts",
                fmt::format("write -n {} for GPUs of this machine; --hosts a,b for those of several",
                            printable(args.text("gpus").value_or("N"))));
  if (!args.has("end-leftovers")) return {};
  return refuse_operands(args, "run --end-leftovers", "end the leftovers first, then run the command");
}

Result<int> run_run(Context& context) {
  GPUWARDEN_CHECK(fall_back_to_torchrun_environment(context));
  GPUWARDEN_CHECK(check_what_is_asked(context.args));
  GPUWARDEN_CHECK(refuse_deepspeeds_count(context));
  if (jobs::names_hosts(context.args)) return run_on_hosts(context);
  GPUWARDEN_CHECK(check_without_hosts(context.args, kRunHostsOptions));
  if (context.args.has("slurm")) return run_on_slurm(context);
  if (const auto run_id = context.args.text("end-leftovers")) return end_leftovers(context, *run_id);
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const auto selection, read_selection(context));
  GPUWARDEN_TRY(jobs::Job job, read_job(context, selection));
  if (const auto found = launch::check_program(job.plan.job.argv[0], context.environment); !found)
    return refuse_program(found.error());
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  job.options.run.rules = knowledge.rules();
  show_leftovers(context);
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  tell_how_it_goes(context, style, job.options);
  placement::Decision refused;
  auto gpus = hold_gpus(job, machine, refused);
  if (!gpus) {
    const int code = complain_of_gpus(context.args, selection, gpus.error());
    const auto report = launch::refusal_to_json(refused, gpus.error(), machine.simulated(), code);
    // Whoever started it on another machine reads there why it got no GPUs.
    const auto file = context.args.text("report");
    return file ? write_reports({{*file, facts::json_text(report)}}, code) : code;
  }
  show_warnings(*gpus, machine);
  return run_held(context, machine, std::move(*gpus), std::move(job));
}

}  // namespace

constinit const Subcommand kRunCommand{
    .name = "run",
    .summary = "choose GPUs, reserve them, and run a command on them",
    .usage = "gpuwarden run [options] -- COMMAND...",
    .groups = {kSelectionGroup, OptionGroup{kRunOptions}, OptionGroup{kKnowledgeOptions}, kWorkloadGroup,
               kRunHostsGroup, OptionGroup{kSlurmRunOptions, "on a Slurm cluster"},
               OptionGroup{kSlurmJobOptions, "on a Slurm cluster"}},
    .rest = Rest::command,
    .details =
        "Reserves the GPUs for as long as the command runs, starts its ranks with "
        "torchrun's variables, passes signals and the exit code on, and reports what "
        "the GPUs did. What torchrun reads from PET_ variables (PET_NNODES, PET_NPROC_PER_NODE ...) "
        "holds here too, behind the command line.",
    .elsewhere = kOtherLaunchers,
    .run = run_run};

}  // namespace gpuwarden::cli
