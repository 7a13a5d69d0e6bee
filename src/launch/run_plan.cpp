// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/run.hpp"

namespace gpuwarden::launch {
namespace {

namespace fs = std::filesystem;

Result<void> plan_ranks(const RunRequest& request, RunPlan& plan) {
  const placement::DistributedConfig& config = request.config.distributed;
  const bool distributed = config.enabled.value_or(false) && config.strategy != "single";
  if (request.ranks == 0U) return fail(ErrorCode::invalid_argument, "a job has at least one process");
  plan.ranks = request.ranks;
  plan.rank_per_gpu = !request.ranks && request.rank_per_gpu.value_or(distributed);
  return {};
}

Result<void> plan_nodes(const RunRequest& request, JobSpec& job) {
  const placement::DistributedConfig& config = request.config.distributed;
  job.nodes = request.nodes.value_or(config.nnodes.value_or(1));
  job.node_rank = request.node_rank.value_or(config.node_rank.value_or(0));
  job.master_address = request.master_address.value_or(config.master_addr.value_or(job.master_address));
  job.master_port = request.master_port ? request.master_port : config.master_port;
  if (job.nodes == 0 || job.node_rank >= job.nodes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("node rank {} does not fit {} nodes", job.node_rank, job.nodes), "ranks count from 0");
  }
  if (job.nodes > 1 && !job.master_port) {
    return fail(ErrorCode::invalid_argument, "several nodes need a master port that all of them know",
                "for example --master-port 29500");
  }
  return {};
}

/// What is written at the end is tried at the start.
Result<void> prepare_logs(const std::optional<fs::path>& folder) {
  if (!folder) return {};
  std::error_code error;
  fs::create_directories(*folder, error);
  if (!error && ::access(folder->c_str(), W_OK | X_OK) == 0) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("cannot write logs into {}", printable(folder->string())));
}

bool is_file(const fs::path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
}

bool is_executable(const fs::path& path) { return ::access(path.c_str(), X_OK) == 0; }

}  // namespace

Result<RunPlan> plan_run(RunRequest request) {
  if (request.argv.empty())
    return fail(ErrorCode::invalid_argument, "no command to run was given", "gpuwarden run -n 2 -- python train.py");
  RunPlan plan;
  GPUWARDEN_CHECK(plan_ranks(request, plan));
  GPUWARDEN_CHECK(plan_nodes(request, plan.job));
  GPUWARDEN_CHECK(prepare_logs(request.log_directory));
  plan.model = request.config.model.model_name_or_path.value_or("");
  plan.job.run_id = make_run_id();
  plan.job.argv = std::move(request.argv);
  plan.job.environment = std::move(request.environment);
  plan.job.extra_environment = placement::job_environment(request.config);
  plan.job.log_directory = std::move(request.log_directory);
  plan.job.one_device_per_rank = request.one_device_per_rank;
  plan.job.grace = request.grace.value_or(plan.job.grace);
  return plan;
}

void complete(const RunPlan& plan, placement::Request& request) {
  request.nodes = plan.job.nodes;
  request.one_process_per_device = plan.rank_per_gpu || (plan.ranks && plan.ranks == request.count);
}

Result<void> check_program(const std::string& program, const Environment& environment) {
  const auto refuse = [&](ErrorCode code, const char* what, const char* hint) {
    return fail(code, fmt::format("'{}' {}", printable(program), what), hint);
  };
  if (program.contains('/')) {
    std::error_code ignored;
    if (fs::is_directory(program, ignored))
      return refuse(ErrorCode::permission_denied, "is a directory", "name a program in it");
    if (!is_file(program)) return refuse(ErrorCode::not_found, "does not exist", "check the command's path");
    if (is_executable(program)) return {};
    return refuse(ErrorCode::permission_denied, "is not executable", "chmod +x it, or name its interpreter");
  }
  bool seen = false;
  for (const fs::path candidate : program_files(program, environment)) {
    if (!is_file(candidate)) continue;
    if (is_executable(candidate)) return {};
    seen = true;
  }
  return seen ? refuse(ErrorCode::permission_denied, "is not executable", "chmod +x it")
              : refuse(ErrorCode::not_found, "was not found", "check the command's name and PATH");
}

}  // namespace gpuwarden::launch
