// SPDX-License-Identifier: Apache-2.0
// gpuwarden slurm: what a cluster has free, what one's jobs do and why they wait, a shell on a node.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/users.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/slurm/run.hpp"
#include "gpuwarden/slurm/site.hpp"
#include "options.hpp"
#include "render/print_json.hpp"
#include "render/slurm_text.hpp"
#include "slurm/doctor.hpp"
#include "slurm/job_options.hpp"
#include "slurm/request.hpp"
#include "slurm/run_job.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kSlurmOptions = std::to_array<Option>({
    {"--remote-program", OptionKind::text, "PROGRAM", "gpuwarden on the nodes (this program's own path)", "",
     "doctor script"},
    {"--everybody", OptionKind::flag, "", "everybody's jobs, not mine alone", "", "queue"},
    {"--nproc-per-node", OptionKind::text, "N|gpu|cpu", "ranks of each node, as for run (1)", "gpu auto cpu", "script"},
    {"--log-dir", OptionKind::text, "DIR", "where the job's logs and reports go (.)", "", "script"},
});

using nlohmann::json;

Result<int> show_nodes(Context& context) {
  GPUWARDEN_TRY(const Style style, style_of(context));
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const slurm::Site site, slurm::read_site(*programs));
  GPUWARDEN_TRY(const std::string partition, jobs::known_partition(context.args.text("partition").value_or(""), site));
  if (context.args.has("json"))
    print_json(slurm::to_json(site, partition));
  else
    fmt::print("{}", nodes_text(site, partition, style));
  return kFine;
}

Result<int> show_queue(Context& context) {
  GPUWARDEN_TRY(const Style style, style_of(context));
  const auto programs = slurm::real_programs(context.environment);
  const std::string user = context.args.has("everybody") ? "" : name_of_user(::geteuid());
  GPUWARDEN_TRY(const auto jobs, slurm::read_queue(*programs, user, context.args.text("partition").value_or("")));
  json list = json::array();
  for (const slurm::Job& job : jobs) list.push_back(slurm::to_json(job));
  if (context.args.has("json"))
    print_json({{"jobs", list}});
  else
    fmt::print("{}", queue_text(jobs, style));
  return kFine;
}

Result<std::string> job_operand(const Context& context) {
  const auto& rest = context.args.rest;
  if (rest.size() == 1 && rest[0].find_first_not_of("0123456789_+") == std::string::npos && !rest[0].empty())
    return rest[0];
  return fail(ErrorCode::invalid_argument,
              rest.empty() ? fmt::format("slurm {} needs the number of a job", context.action)
                           : fmt::format("'{}' is not the number of a job", printable(rest[0])),
              fmt::format("gpuwarden slurm {} 12; gpuwarden slurm queue lists yours", context.action));
}

Result<int> show_why(Context& context) {
  GPUWARDEN_TRY(const std::string id, job_operand(context));
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const slurm::Job job, slurm::find_job(*programs, id));
  if (context.args.has("json")) {
    print_json(slurm::to_json(job));
    return kFine;
  }
  GPUWARDEN_TRY(const slurm::Site site, slurm::read_site(*programs));
  fmt::print("{}", why_text(job, site));
  return kFine;
}

Result<int> follow_job(Context& context) {
  GPUWARDEN_TRY(const std::string id, job_operand(context));
  return follow_slurm_job(context, id);
}

/// An interactive session on nodes of one's own.
Result<int> open_shell(Context& context) {
  auto command = context.args.rest;
  if (command.empty()) command = {shell_of(context.environment), "-i"};
  GPUWARDEN_TRY(const slurm::Request request, jobs::slurm_request_from(context.args, command));
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const slurm::Site site, slurm::read_site(*programs));
  GPUWARDEN_TRY(const slurm::Placed placed, slurm::place(request, site));
  const auto words = slurm::srun_command(placed.job, ::isatty(STDIN_FILENO) != 0, command);
  if (context.args.has("json")) {
    print_json({{"command", words}, {"decisions", placed.decisions}});
    return kFine;
  }
  for (const std::string& decision : placed.decisions) say("gpuwarden: {}\n", decision);
  return refuse_program(launch::become_program(words, context.environment));
}

Result<int> show_script(Context& context) {
  if (!context.args.has("json")) return print_slurm_script(context);
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const jobs::SlurmJob job, read_slurm_job(context, *programs, slurm::read_site_if_any));
  GPUWARDEN_TRY(const std::string text, slurm::sbatch_script(job.job));
  print_json({{"script", text}, {"decisions", job.decisions}});
  return kFine;
}

constexpr auto kActions =
    std::to_array<Action>({{"nodes", show_nodes},
                           {"queue", show_queue},
                           {"why", show_why, 1},
                           {"follow", follow_job, 1, false},
                           {"doctor", [](Context& context) { return examine_partition(context); }},
                           {"shell", open_shell, kManyOperands},
                           {"script", show_script, kManyOperands}});

/// Options that only a job has a use for are refused where none is asked for; those that look at a cluster look at one
/// partition of it, too.
Result<void> check_job_options(const Context& context) {
  const std::string_view name = context.args.rest.empty() ? "" : std::string_view(context.args.rest[0]);
  const auto* const action = std::ranges::find(kActions, name, &Action::name);
  if (action == kActions.end() || action->operands == kManyOperands) return {};
  for (const Option& option : kSlurmJobOptions) {
    const std::string key = key_of(option);
    const bool all = key == "partition" && action->operands == 0;
    if (context.args.has(key) && !all)
      return fail(ErrorCode::invalid_argument, fmt::format("slurm {} takes no --{}", name, key),
                  "it is an option of gpuwarden slurm shell, gpuwarden slurm script and gpuwarden run --slurm");
  }
  return {};
}

Result<int> run_slurm(Context& context) {
  GPUWARDEN_CHECK(check_job_options(context));
  return run_action(context, kActions);
}

}  // namespace

constinit const Subcommand kSlurmCommand{
    .name = "slurm",
    .summary = "a cluster's free GPUs and your jobs on it, with why they wait",
    .usage =
        "gpuwarden slurm nodes | queue | doctor | why JOB | follow JOB | shell [-- COMMAND...] | script -- COMMAND...",
    .groups = {OptionGroup{kSlurmOptions}, OptionGroup{kSlurmJobOptions, "what a job asks for"}},
    .rest = Rest::operands,
    .actions = "nodes queue why follow doctor shell script",
    .details =
        "Asks scontrol, sinfo and squeue, and says what they mean. gpuwarden run --slurm runs a command on a "
        "cluster's nodes.",
    .run = run_slurm};

}  // namespace gpuwarden::cli
