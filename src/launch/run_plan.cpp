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
  job.rendezvous_id = request.rendezvous_id.value_or("");
  if (job.nodes > 1 && !job.master_port && job.rendezvous_id.empty()) {
    return fail(ErrorCode::invalid_argument, "several nodes need a master port that all of them know",
                "for example --master-port 29500; or the same --rdzv-id on each, from which the port follows");
  }
  return {};
}

/// Streams that are to be logged need a place.
Result<void> find_log_directory(RunRequest& request, const std::string& run_id) {
  if (request.log_directory || (request.redirects.none() && request.tee.none())) return {};
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error) / ("gpuwarden-" + run_id);
  if (error || ::mkdir(folder.c_str(), 0700) != 0)
    return fail(ErrorCode::failed, "no folder for the ranks' output can be made", "name one with --log-dir");
  request.log_directory = folder;
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

/// The command as it is executed: Python's programs and modules by Python.
std::vector<std::string> as_command(RunRequest& request) {
  std::vector<std::string> words = std::move(request.argv);
  const bool script =
      request.python_script || (words[0].ends_with(".py") && is_file(words[0]) && !is_executable(words[0]));
  if (!script && !request.python_module) return words;
  const auto named = request.environment.find("PYTHON_EXEC");
  std::vector<std::string> python{named == request.environment.end() ? "python3" : named->second, "-u"};
  if (request.python_module) python.emplace_back("-m");
  words.insert(words.begin(), python.begin(), python.end());
  return words;
}

}  // namespace

Result<RunPlan> plan_run(RunRequest request) {
  if (request.argv.empty())
    return fail(ErrorCode::invalid_argument, "no command to run was given", "gpuwarden run -n 2 -- python train.py");
  RunPlan plan;
  GPUWARDEN_CHECK(plan_ranks(request, plan));
  GPUWARDEN_CHECK(plan_nodes(request, plan.job));
  plan.job.run_id = make_run_id();
  GPUWARDEN_CHECK(find_log_directory(request, plan.job.run_id));
  GPUWARDEN_CHECK(prepare_logs(request.log_directory));
  plan.model = request.config.model.model_name_or_path.value_or("");
  plan.job.argv = as_command(request);
  plan.job.environment = std::move(request.environment);
  plan.job.extra_environment = placement::job_environment(request.config);
  plan.job.log_directory = std::move(request.log_directory);
  plan.job.redirects = std::move(request.redirects);
  plan.job.tee = std::move(request.tee);
  plan.job.shown_ranks = std::move(request.shown_ranks);
  plan.job.role = request.role.value_or(plan.job.role);
  plan.job.one_device_per_rank = request.one_device_per_rank;
  plan.bind = request.bind;
  plan.least_nodes = request.least_nodes;
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
