// SPDX-License-Identifier: Apache-2.0
// gpuwarden run: chooses, leases, runs, reports.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/report.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/machine/fleets.hpp"
#include "gpuwarden/placement/names.hpp"
#include "leftovers.hpp"
#include "machine.hpp"
#include "plan/workload_options.hpp"
#include "recording.hpp"
#include "render/recording_text.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kRunOptions = std::to_array<Option>({
    {"--nproc-per-node", OptionKind::text, "N|gpu", "how many ranks; gpu, auto: one for each GPU (1)", "gpu auto"},
    {"--one-gpu-per-rank", OptionKind::flag, "", "each rank sees only its own GPU, as device 0"},
    {"--nnodes", OptionKind::text, "N", "how many nodes take part (1)"},
    {"--node-rank", OptionKind::text, "R", "which of them this is (0)"},
    {"--master-addr", OptionKind::text, "HOST", "address of node 0 (127.0.0.1)"},
    {"--master-port", OptionKind::text, "PORT", "port of rank 0 (a free one)"},
    {"--log-dir", OptionKind::text, "DIR", "keep each rank's output there"},
    {"--grace", OptionKind::text, "DURATION", "time between asking a job to end and killing it (10s)"},
    {"--cpu-fallback", OptionKind::flag, "", "run on the CPU where no GPU is available"},
    {"--report", OptionKind::text, "FILE", "write the final report as JSON"},
    {"--record", OptionKind::text, "FILE", "keep what the GPUs did, for gpuwarden report"},
    {"--no-report", OptionKind::flag, "", "print no report"},
    {"--sample-period", OptionKind::text, "DURATION", "how often the GPUs are read meanwhile (1s)"},
    {"--sim-load", OptionKind::text, "SPEC", "what a job pretends to use on a simulated fleet (memory=1GiB,util=60)"},
    {"--end-leftovers", OptionKind::text, "RUN", "end what is left of a run whose launcher was killed"},
    {"-q,--quiet", OptionKind::flag, "", "say nothing but errors"},
});

using launch::JobSpec;
using launch::ReadyRun;
using launch::RunPlan;
using launch::RunReport;
using nlohmann::json;
/// What is written at the end is tried at the start.
Result<void> check_report(const Args& args) {
  const auto file = args.text("report");
  if (!file || can_write_output(*file)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("--report: cannot write {}", printable(*file)));
}

Result<launch::RunOptions> read_run_options(const Args& args) {
  launch::RunOptions options;
  GPUWARDEN_TRY(const auto period, duration_option(args, "sample-period"));
  if (period) options.sample_period = std::max(*period, std::chrono::milliseconds(10));
  if (const auto text = args.text("sim-load")) {
    const auto load = machine::parse_load(*text);
    if (!load) return std::unexpected(about("sim-load", load.error()));
    options.load = *load;
  }
  GPUWARDEN_CHECK(check_report(args));
  return options;
}

Result<RunPlan> read_plan(const Context& context, const Selection& selection) {
  const Args& args = context.args;
  launch::RunRequest request{.argv = args.rest, .environment = context.environment, .config = selection.config};
  const auto ranks = args.text("nproc-per-node");
  const bool per_gpu = ranks == "gpu" || ranks == "auto";  // torchrun's words
  if (ranks) request.rank_per_gpu = per_gpu;
  if (ranks && !per_gpu) {
    GPUWARDEN_TRY(request.ranks, count_option(args, "nproc-per-node", 4096));
  }
  GPUWARDEN_TRY(request.nodes, count_option(args, "nnodes", 65536));
  GPUWARDEN_TRY(request.node_rank, count_option(args, "node-rank", 65535));
  GPUWARDEN_TRY(const auto port, count_option(args, "master-port", 65535));
  if (port) request.master_port = static_cast<std::uint16_t>(*port);
  request.master_address = args.text("master-addr");
  GPUWARDEN_TRY(request.grace, duration_option(args, "grace"));
  request.log_directory = args.text("log-dir");
  request.one_device_per_rank = args.has("one-gpu-per-rank");
  return launch::plan_run(std::move(request));
}

/// Without a GPU the job runs on the CPU where that is allowed: the driver absent, or no GPU in the machine.
bool falls_back(const Context& context, const Error& error) {
  return context.args.has("cpu-fallback") &&
         (error.code == ErrorCode::unavailable || error.code == ErrorCode::unsatisfied ||
          error.code == ErrorCode::timed_out || error.code == ErrorCode::permission_denied);
}

Result<machine::Reservation> acquire_or_fall_back(const Context& context, const Machine& machine,
                                                  const Selection& selection, const std::string& run_id) {
  if (selection.request.force_cpu) return machine::Reservation::of_cpu();
  auto acquired = acquire(machine, selection, true, {run_id, join(context.args.rest, " ")});
  if (acquired || !falls_back(context, acquired.error())) return acquired;
  warn(fmt::format("{}: running on the CPU", acquired.error().message));
  return machine::Reservation::of_cpu();
}

void announce(const Context& context, const machine::Reservation& acquired, const JobSpec& spec) {
  if (context.args.has("quiet")) return;
  show_model_fit(acquired.decision());
  std::string gpus;
  for (const auto& device : acquired.decision().selected) {
    gpus += fmt::format("{}{}{}", gpus.empty() ? "" : ", ", device.index.value,
                        device.mig ? fmt::format(".{}", *device.mig) : "");
  }
  const std::string where =
      acquired.decision().cpu ? "the CPU" : fmt::format("GPU {} ({})", gpus, acquired.decision().selected[0].name);
  say("gpuwarden: {}{} on {}, run {}\n", acquired.snapshot().simulated ? "[simulated] " : "",
      spec.ranks == 1 ? "1 process" : fmt::format("{} ranks", spec.ranks), where, spec.run_id);
}

std::string energy_text(const launch::GpuReport& gpu) {
  if (!gpu.energy_joules) return "-";
  const double joules = *gpu.energy_joules;
  const std::string text = joules < 10000 ? fmt::format("{:.0f} J", joules) : fmt::format("{:.2f} Wh", joules / 3600);
  return gpu.energy_is_estimate ? "~" + text : text;
}

void print_report(const RunReport& report) {
  say("\ngpuwarden: {}{} after {}, exit code {}\n", report.simulated ? "[simulated figures] " : "",
      report.end.exit_code == 0 ? "finished" : "ended", format_duration(report.end.wall_time), report.end.exit_code);
  if (report.end.first_failure && report.end.ranks.size() > 1)
    say("  rank {} failed first\n", *report.end.first_failure);
  for (const auto& gpu : report.gpus) {
    std::string throttling;
    for (const auto reason : gpu.throttling)
      throttling += fmt::format("{}{}", throttling.empty() ? ", throttled: " : " ", facts::to_string(reason));
    say("  GPU {}: peak memory {}, mean utilization {}, peak temperature {}, energy {}{}{}\n", gpu.index.value,
        gpu.peak_memory ? format_size(*gpu.peak_memory) : "-",
        gpu.mean_utilization ? fmt::format("{:.0f} %", *gpu.mean_utilization) : "-",
        gpu.peak_temperature ? fmt::format("{} C", gpu.peak_temperature->value) : "-", energy_text(gpu), throttling,
        gpu.trouble.empty() ? "" : "; trouble: " + gpu.trouble);
  }
  say("{}", gpu_errors_text(launch::summary_of(report)));  // one that failed was warned of
  std::vector<recording::Waste> waste = report.waste;
  std::erase_if(waste, [](const recording::Waste& one) { return one.id == "gpu_lost"; });
  say("{}", waste_text(waste, {}, 2));
  for (const launch::SiteFinding& finding : report.findings)
    say("  {}: {} [{}]{}\n", finding.severity, finding.message, finding.id,
        finding.fix.empty() ? "" : ": " + finding.fix);
}

int finish(const Context& context, const RunReport& report) {
  for (const std::string& warning : launch::gpu_warnings(report)) warn(warning);
  if (!context.args.has("no-report") && !context.args.has("quiet")) print_report(report);
  if (const auto file = context.args.text("report")) {
    auto written =
        write_output(*file, launch::to_json(report).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
    if (!written) {
      complain(written.error());
      return report.end.exit_code == kFine ? kNo : report.end.exit_code;
    }
  }
  return report.end.exit_code;
}

/// Of --record; nullptr without it.
Result<std::unique_ptr<recording::Recorder>> open_recorder(const Context& context, const machine::Reservation& acquired,
                                                           const JobSpec& job, std::chrono::milliseconds period) {
  const auto file = context.args.text("record");
  if (!file || acquired.decision().cpu) return nullptr;
  recording::RecorderOptions options;
  options.file = *file;
  options.info = recording_info(acquired.snapshot(), job.argv, period);
  // An instance stands for its GPU.
  facts::Snapshot held = acquired.snapshot();
  std::vector<placement::GpuName> names;
  for (const auto& device : acquired.decision().selected) names.push_back({device.uuid.value});
  GPUWARDEN_CHECK(placement::keep_named(names, held));
  for (const facts::GpuRecord& record : held.gpus) options.gpus.push_back(record.gpu.uuid);
  options.held_by = job.run_id;
  options.if_it_exists = "name another file with --record, or remove this one where nobody needs it";
  return recording::Recorder::open(std::move(options), system_clock());
}

int run_acquired(const Context& context, const Machine& machine, machine::Reservation& acquired, const RunPlan& plan,
                 launch::RunOptions options) {
  ReadyRun job = launch::ready(plan, machine, acquired.decision(), acquired.snapshot(), acquired.descriptors());
  job.job.takes_signals = true;
  job.job.record_directory = lease_directory(context);
  const auto recorder = open_recorder(context, acquired, job.job, options.sample_period);
  if (!recorder) return complain(recorder.error());
  if (*recorder) options.hear = recording_into(**recorder);
  announce(context, acquired, job.job);
  options.look_after = [&acquired] { return acquired.repair(); };
  const auto report = launch::run(job, machine, options, system_clock());
  if (*recorder) {
    (*recorder)->finish(report ? std::optional(report->end.exit_code) : std::nullopt);
    say_losses((*recorder)->progress());
  }
  if (report) return finish(context, *report);
  return refuse_program(report.error());
}

/// What means nothing together: told, not left out in silence.
Result<void> check_what_is_asked(const Args& args) {
  GPUWARDEN_CHECK(refuse_json(args, "run", "--report - prints its report as JSON at the end"));
  if (!args.has("end-leftovers")) return {};
  return refuse_operands(args, "run --end-leftovers", "end the leftovers first, then run the command");
}

Result<int> run_run(Context& context) {
  GPUWARDEN_CHECK(check_what_is_asked(context.args));
  if (const auto run_id = context.args.text("end-leftovers")) return end_leftovers(context, *run_id);
  GPUWARDEN_TRY(auto selection, read_selection(context));
  GPUWARDEN_TRY(auto options, read_run_options(context.args));
  GPUWARDEN_TRY(const auto plan, read_plan(context, selection));
  if (const auto found = launch::check_program(plan.job.argv[0], context.environment); !found)
    return refuse_program(found.error());
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  options.rules = knowledge.rules();
  options.warning = [](const std::string& text) { warn(text); };
  show_leftovers(context);
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  launch::complete(plan, selection.request);
  auto acquired = acquire_or_fall_back(context, machine, selection, plan.job.run_id);
  if (!acquired) {
    const int code = complain(acquired.error());
    if (acquired.error().code == ErrorCode::unavailable) say("hint: --cpu-fallback runs the job on the CPU instead\n");
    return code;
  }
  show_warnings(context, machine, *acquired);
  return run_acquired(context, machine, *acquired, plan, options);
}

}  // namespace

constinit const Subcommand kRunCommand{
    .name = "run",
    .summary = "choose GPUs, reserve them, and run a command on them",
    .usage = "gpuwarden run [options] -- COMMAND...",
    .groups = {kSelectionGroup, OptionGroup{kRunOptions}, OptionGroup{kKnowledgeOptions}, kWorkloadGroup},
    .rest = Rest::command,
    .details =
        "Reserves the GPUs for as long as the command runs, starts its ranks with "
        "torchrun's variables, passes signals and the exit code on, and reports what "
        "the GPUs did.",
    .run = run_run};

}  // namespace gpuwarden::cli
