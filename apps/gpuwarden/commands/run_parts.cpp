// SPDX-License-Identifier: Apache-2.0
#include "commands/run_parts.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;

Result<void> read_ranks(const Args& args, const placement::JobConfig& config, RunPlan& plan) {
  const auto text = args.text("nproc-per-node");
  const bool distributed = config.distributed.enabled.value_or(false) && config.distributed.strategy != "single";
  plan.rank_per_gpu = text ? *text == "gpu" : distributed;
  if (text && *text != "gpu") {
    GPUWARDEN_TRY(plan.ranks, count_option(args, "nproc-per-node", 4096));
    if (plan.ranks == 0U) return fail(ErrorCode::invalid_argument, "--nproc-per-node: at least one process");
  }
  return {};
}

Result<void> read_nodes(const Args& args, const placement::JobConfig& config, launch::JobSpec& job) {
  const auto& distributed = config.distributed;
  GPUWARDEN_TRY(const auto nodes, count_option(args, "nnodes", 65536));
  GPUWARDEN_TRY(const auto rank, count_option(args, "node-rank", 65535));
  GPUWARDEN_TRY(const auto port, count_option(args, "master-port", 65535));
  job.nodes = nodes.value_or(distributed.nnodes.value_or(1));
  job.node_rank = rank.value_or(distributed.node_rank.value_or(0));
  job.master_address = args.text("master-addr").value_or(distributed.master_addr.value_or("127.0.0.1"));
  job.master_port = port ? std::optional(static_cast<std::uint16_t>(*port)) : distributed.master_port;
  if (job.nodes == 0 || job.node_rank >= job.nodes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--node-rank {} does not fit --nnodes {}", job.node_rank, job.nodes), "ranks count from 0");
  }
  if (job.nodes > 1 && !job.master_port) {
    return fail(ErrorCode::invalid_argument, "several nodes need a --master-port that all of them know",
                "for example --master-port 29500");
  }
  return {};
}

/// Folders and files that are written at the end are tried at the start.
Result<void> prepare_outputs(const Args& args, launch::JobSpec& job) {
  if (const auto folder = args.text("log-dir")) {
    std::error_code error;
    fs::create_directories(*folder, error);
    if (error || ::access(folder->c_str(), W_OK | X_OK) != 0) {
      return fail(ErrorCode::invalid_argument, fmt::format("--log-dir: cannot write into {}", printable(*folder)));
    }
    job.log_directory = *folder;
  }
  if (const auto file = args.text("report")) {
    const fs::path parent = fs::path(*file).has_parent_path() ? fs::path(*file).parent_path() : fs::path(".");
    if (file->empty() || ::access(parent.c_str(), W_OK | X_OK) != 0) {
      return fail(ErrorCode::invalid_argument, fmt::format("--report: cannot write {}", printable(*file)));
    }
  }
  return {};
}

bool is_file(const fs::path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
}

}  // namespace

Result<SimulatedLoad> parse_load(const std::string& text) {
  SimulatedLoad load;
  for (const auto part : split(text, ',')) {
    const auto sides = split(part, '=');
    const auto size =
        sides.size() == 2 && sides[0] == "memory" ? parse_size(sides[1]) : fail(ErrorCode::invalid_argument, "");
    const auto share = sides.size() == 2 && sides[0] == "util" ? parse_integer(sides[1]) : std::nullopt;
    if (size)
      load.memory = *size;
    else if (share && *share >= 0 && *share <= 100)
      load.utilization = Percent(*share);
    else
      return fail(ErrorCode::invalid_argument, fmt::format("--sim-load: '{}' is not understood", printable(part)),
                  "for example memory=20GiB,util=80");
  }
  return load;
}

Result<RunPlan> plan_run(Context& context, Selection& selection) {
  RunPlan plan;
  const Args& args = context.args;
  if (args.rest.empty())
    return fail(ErrorCode::invalid_argument, "no command to run was given", "gpuwarden run -n 2 -- python train.py");
  plan.job.argv = args.rest;
  plan.model = selection.config.model.model_name_or_path.value_or("");
  plan.job.run_id = launch::make_run_id();
  plan.job.environment = context.environment;
  plan.job.extra_environment = placement::job_environment(selection.config);
  GPUWARDEN_CHECK(read_ranks(args, selection.config, plan));
  GPUWARDEN_CHECK(read_nodes(args, selection.config, plan.job));
  selection.request.nodes = plan.job.nodes;
  GPUWARDEN_TRY(const auto grace, duration_option(args, "grace"));
  if (grace) plan.job.grace = *grace;
  GPUWARDEN_TRY(const auto period, duration_option(args, "sample-period"));
  if (period) plan.sample_period = std::max(*period, std::chrono::milliseconds(10));
  if (const auto load = args.text("sim-load")) {
    GPUWARDEN_TRY(plan.load, parse_load(*load));
  }
  GPUWARDEN_CHECK(prepare_outputs(args, plan.job));
  plan.job.one_device_per_rank = args.has("one-gpu-per-rank");
  selection.request.one_process_per_device = plan.rank_per_gpu || (plan.ranks && plan.ranks == selection.request.count);
  return plan;
}

void resolve_ranks(const RunPlan& plan, const placement::Decision& decision, launch::JobSpec& spec) {
  const auto devices = static_cast<std::uint32_t>(decision.selected.size());
  spec.ranks = plan.ranks.value_or(plan.rank_per_gpu ? std::max(devices, 1U) : 1);
  // CUDA lets a process see one MIG instance only, so each rank must get its own.
  const bool migs = std::ranges::any_of(decision.selected, [](const auto& device) { return device.mig.has_value(); });
  if (migs && spec.ranks > 1) spec.one_device_per_rank = true;
}

int check_program(const std::string& program, const Environment& environment) {
  const auto refuse = [&](int code, const char* what, const char* hint) {
    complain({ErrorCode::not_found, fmt::format("'{}' {}", printable(program), what), hint});
    return code;
  };
  std::error_code ignored;
  if (program.contains('/')) {
    if (fs::is_directory(program, ignored)) return refuse(kNotExecutable, "is a directory", "name a program in it");
    if (!is_file(program)) return refuse(kNotFound, "does not exist", "check the command's path");
    return ::access(program.c_str(), X_OK) == 0
               ? 0
               : refuse(kNotExecutable, "is not executable", "chmod +x it, or name its interpreter");
  }
  const auto path = environment.find("PATH");
  bool seen = false;
  for (const auto folder :
       split(path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : std::string_view(path->second), ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / program;
    if (!is_file(candidate)) continue;
    if (::access(candidate.c_str(), X_OK) == 0) return 0;
    seen = true;
  }
  return seen ? refuse(kNotExecutable, "is not executable", "chmod +x it")
              : refuse(kNotFound, "was not found", "check the command's name and PATH");
}

}  // namespace gpuwarden::cli
