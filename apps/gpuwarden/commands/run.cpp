// SPDX-License-Identifier: Apache-2.0
// gpuwarden run: chooses, leases, runs, reports.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "commands/run_parts.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/report.hpp"
#include "gpuwarden/launch/run_rules.hpp"
#include "knowledge_base.hpp"
#include "leftovers.hpp"
#include "model_request.hpp"

namespace gpuwarden::cli {
namespace {

using launch::JobSpec;
using launch::RunReport;
using nlohmann::json;

/// Without a GPU the job runs on the CPU where that is allowed: the driver absent, or no GPU in the machine.
bool falls_back(const Context& context, const Error& error) {
  return context.args.has("cpu-fallback") &&
         (error.code == ErrorCode::unavailable || error.code == ErrorCode::unsatisfied ||
          error.code == ErrorCode::timed_out || error.code == ErrorCode::permission_denied);
}

Result<machine::Reservation> acquire_or_fall_back(Context& context, const Machine& machine, Selection& selection,
                                                  const std::string& run_id) {
  if (selection.request.force_cpu) return machine::Reservation::of_cpu();
  GPUWARDEN_TRY(const auto store, open_leases(context, machine, run_id, join(context.args.rest, " ")));
  auto acquired = acquire(context, machine, selection, &store, true);
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
  fmt::print(stderr, "gpuwarden: {}{} on {}, run {}\n", acquired.snapshot().simulated ? "[simulated] " : "",
             spec.ranks == 1 ? "1 process" : fmt::format("{} ranks", spec.ranks), where, spec.run_id);
}

std::string energy_text(const launch::GpuReport& gpu) {
  if (!gpu.energy_joules) return "-";
  const double joules = *gpu.energy_joules;
  const std::string text = joules < 10000 ? fmt::format("{:.0f} J", joules) : fmt::format("{:.2f} Wh", joules / 3600);
  return gpu.energy_is_estimate ? "~" + text : text;
}

void print_report(const RunReport& report) {
  fmt::print(stderr, "\ngpuwarden: {}{} after {}, exit code {}\n", report.simulated ? "[simulated figures] " : "",
             report.end.exit_code == 0 ? "finished" : "ended", format_duration(report.end.wall_time),
             report.end.exit_code);
  if (report.end.first_failure && report.end.ranks.size() > 1)
    fmt::print(stderr, "  rank {} failed first\n", *report.end.first_failure);
  for (const auto& gpu : report.gpus) {
    std::string throttling;
    for (const auto reason : gpu.throttling)
      throttling += fmt::format("{}{}", throttling.empty() ? ", throttled: " : " ", facts::to_string(reason));
    fmt::print(stderr, "  GPU {}: peak memory {}, mean utilization {}, peak temperature {}, energy {}{}{}\n",
               gpu.index.value, gpu.peak_memory ? format_size(*gpu.peak_memory) : "-",
               gpu.mean_utilization ? fmt::format("{:.0f} %", *gpu.mean_utilization) : "-",
               gpu.peak_temperature ? fmt::format("{} C", gpu.peak_temperature->value) : "-", energy_text(gpu),
               throttling, gpu.trouble.empty() ? "" : "; trouble: " + gpu.trouble);
  }
  for (const launch::SiteFinding& finding : report.findings)
    fmt::print(stderr, "  {}: {} [{}]{}\n", finding.severity, finding.message, finding.id,
               finding.fix.empty() ? "" : ": " + finding.fix);
}

/// The job's processes show in a simulated fleet as holding memory and load.
launch::OnRankStarted declare_to(Machine& machine, const SimulatedLoad& load, const JobSpec& spec) {
  if (!machine.simulated() || spec.visible_devices.empty()) return {};
  return [&machine, &load, &spec](std::uint32_t rank, Pid pid) {
    json gpus = json::array();
    const auto devices = split(spec.visible_devices, ',');
    for (std::size_t i = 0; i < devices.size(); ++i) {
      // Ranks of one machine usually take a GPU each; a single process takes all.
      if (spec.ranks == 1 || i == rank % devices.size()) gpus.push_back(std::string(devices[i]));
    }
    // A rank that has ended already holds nothing: its failure to be found is no news.
    [[maybe_unused]] const auto declared = machine.simulator->call({{"op", "declare"},
                                                                    {"pid", pid.value},
                                                                    {"gpus", gpus},
                                                                    {"memory_bytes", load.memory.value},
                                                                    {"utilization_percent", load.utilization.value}});
  };
}

int finish(const Context& context, const RunReport& report) {
  for (const std::string& warning : launch::gpu_warnings(report)) warn(warning);
  if (!context.args.has("no-report") && !context.args.has("quiet")) print_report(report);
  if (const auto file = context.args.text("report")) {
    auto written = write_file_atomically(
        *file, launch::to_json(report).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
    if (!written) complain(written.error());
  }
  return report.end.exit_code;
}

/// How busy the CPUs are is needed only where a rule looks at it; the file costs nothing.
std::string cpu_reading() { return read_file("/proc/stat").value_or(""); }

/// Words in which a rule may find its workload.
std::string workload_of(const RunPlan& plan) { return join(plan.job.argv, " ") + " " + plan.model; }

int run_acquired(Context& context, Machine& machine, const machine::Reservation& acquired, const RunPlan& plan,
                 const knowledge::Knowledge& knowledge) {
  JobSpec spec = plan.job;
  spec.visible_devices = placement::cuda_visible_devices(acquired.decision());
  spec.held_descriptors = acquired.descriptors();
  resolve_ranks(plan, acquired.decision(), spec);
  announce(context, acquired, spec);
  RunReport report;
  report.simulated = machine.simulated();
  report.run_id = spec.run_id;
  report.command = spec.argv;
  report.started = system_clock().wall_now();
  std::optional<launch::Sampler> sampler;
  if (!acquired.decision().selected.empty())
    sampler.emplace(machine.reader, acquired.devices(), plan.sample_period, system_clock());
  const std::string before = cpu_reading();
  spec.takes_signals = true;
  spec.record_directory = lease_directory(context);
  const auto end = launch::run_job(
      spec, system_clock(),
      {.rank_started = declare_to(machine, plan.load, spec), .warning = [](const std::string& text) { warn(text); }});
  if (sampler) report.gpus = sampler->finish();
  if (!end) {
    complain(end.error());
    return end.error().code == ErrorCode::not_found           ? kNotFound
           : end.error().code == ErrorCode::permission_denied ? kNotExecutable
                                                              : kNo;
  }
  report.end = *end;
  const std::string driver = acquired.snapshot().driver_version.value_or("");
  report.findings = launch::judge_run(report, knowledge.rules(),
                                      {.workload = workload_of(plan),
                                       .driver = knowledge::Version::parse(driver),
                                       .cpu_percent = launch::busy_percent(before, cpu_reading())});
  return finish(context, report);
}

}  // namespace

int run_run(Context& context) {
  if (const auto run_id = context.args.text("end-leftovers")) return end_leftovers(context, *run_id);
  auto selection = read_selection(context);
  if (!selection) return complain(selection.error());
  auto plan = plan_run(context, *selection);
  if (!plan) return complain(plan.error());
  if (const int code = check_program(plan->job.argv[0], context.environment); code != 0) return code;
  const auto knowledge = open_knowledge(context);
  if (!knowledge) return complain(knowledge.error());
  show_leftovers(context);
  auto machine = open_machine(context);
  if (!machine) return complain(machine.error());
  Environment of_ranks = plan->job.environment;
  for (const auto& [name, value] : plan->job.extra_environment) of_ranks[name] = value;
  for (const auto& [name, value] : simulated_environment(*machine, of_ranks)) plan->job.extra_environment[name] = value;
  auto acquired = acquire_or_fall_back(context, *machine, *selection, plan->job.run_id);
  if (!acquired) {
    const int code = complain(acquired.error());
    if (acquired.error().code == ErrorCode::unavailable)
      fmt::print(stderr, "hint: --cpu-fallback runs the job on the CPU instead\n");
    return code;
  }
  show_warnings(context, *machine, *acquired);
  return run_acquired(context, *machine, *acquired, *plan, *knowledge);
}

}  // namespace gpuwarden::cli
