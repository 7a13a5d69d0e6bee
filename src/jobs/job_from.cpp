// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/healing/supply.hpp"
#include "gpuwarden/jobs/job.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/launch/torchrun_words.hpp"

namespace gpuwarden::jobs {
namespace {

using launch::RunRequest;

/// "gpu", "auto" and a range: a rank for each GPU; "cpu": one for each CPU that we may use.
Result<void> read_ranks(const NamedValues& values, RunRequest& request) {
  const auto ranks = values.text("nproc-per-node");
  if (!ranks) return {};
  request.rank_per_gpu = ranks == "gpu" || ranks == "auto" || ranks->contains(':');
  if (*request.rank_per_gpu) return {};
  if (ranks == "cpu") {
    cpu_set_t own;
    CPU_ZERO(&own);
    request.ranks = ::sched_getaffinity(0, sizeof own, &own) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&own)) : 1;
    return {};
  }
  GPUWARDEN_TRY(request.ranks, count_option(values, "nproc-per-node", 4096));
  return {};
}

/// "2", or "1:4": torchrun's range.
Result<void> read_nodes(const NamedValues& values, RunRequest& request) {
  GPUWARDEN_TRY(const auto nodes, range_option(values, "nnodes", 65536));
  if (!nodes) return {};
  request.nodes = nodes->most;
  if (nodes->least < nodes->most) request.least_nodes = nodes->least;
  return {};
}

/// Where the nodes meet: an address and a port, or both in torchrun's endpoint.
Result<void> read_meeting_place(const NamedValues& values, RunRequest& request) {
  GPUWARDEN_TRY(const auto port, count_option(values, "master-port", 65535));
  if (port) request.master_port = static_cast<std::uint16_t>(*port);
  request.master_address = values.text("master-addr");
  request.rendezvous_id = values.text("rdzv-id");
  const auto backend = values.text("rdzv-backend");
  if (backend && backend != "c10d" && backend != "static")
    return values.refuse(fmt::format("--rdzv-backend: '{}' is not known", printable(*backend)),
                         "c10d or static: nodes meet without a server of their own");
  GPUWARDEN_TRY(const auto place, read_option(values, "rdzv-endpoint", launch::parse_rendezvous_endpoint));
  if (!place) return {};
  if (values.has("master-addr") || values.has("master-port"))
    return values.refuse("--rdzv-endpoint names the address and the port already",
                         "leave out --master-addr and --master-port");
  request.master_address = place->host;
  if (place->port != 0) request.master_port = place->port;
  return {};
}

/// Which of the nodes this is; torchrun's c10d finds that out, here it is told or Slurm's.
Result<void> read_node_rank(const NamedValues& values, RunRequest& request) {
  GPUWARDEN_TRY(request.node_rank, count_option(values, "node-rank", 65535));
  if (request.node_rank || request.nodes.value_or(1) == 1) return {};
  const auto slurm = request.environment.find("SLURM_NODEID");
  const auto number = slurm == request.environment.end() ? std::nullopt : parse_integer(slurm->second);
  if (number && *number >= 0 && *number <= 65535) request.node_rank = static_cast<std::uint32_t>(*number);
  if (request.node_rank || !values.has("rdzv-endpoint")) return {};
  return values.refuse(fmt::format("which of the {} nodes is this?", *request.nodes),
                       "--node-rank 0 on the endpoint's, 1, 2 ...");
}

/// Those that say the opposite of each other.
Result<void> check_together(const NamedValues& values) {
  static constexpr Clash kClashes[] = {
      {"standalone", "node-rank", "--standalone is one node"},
      {"standalone", "rdzv-endpoint", "--standalone finds a free port"},
      {"standalone", "master-port", "--standalone finds a free port"},
      {"module", "no-python", "a module is run by Python"},
      {"run-path", "no-python", "--run-path is for a program of Python's"},
      {"run-path", "module", "a module is named, not a program's path"},
  };
  // torchrun's own examples write --standalone --nnodes 1.
  const auto nodes = values.text("nnodes").value_or("1");
  if (values.has("standalone") && nodes != "1" && nodes != "1:1")
    return values.refuse("--standalone and --nnodes exclude each other: --standalone is one node");
  return check_clashes(values, kClashes);
}

Result<launch::RunPlan> plan_from(const NamedValues& values, RunRequest request) {
  GPUWARDEN_CHECK(check_together(values));
  GPUWARDEN_CHECK(read_ranks(values, request));
  GPUWARDEN_CHECK(read_nodes(values, request));
  GPUWARDEN_CHECK(read_meeting_place(values, request));
  GPUWARDEN_CHECK(read_node_rank(values, request));
  GPUWARDEN_TRY(request.grace, duration_option(values, "grace"));
  GPUWARDEN_TRY(request.redirects, streams_from(values, "redirects"));
  GPUWARDEN_TRY(request.tee, streams_from(values, "tee"));
  if (const auto text = values.text("numa-binding")) {
    request.bind = placement::bind_to_from(*text);
    if (!request.bind)
      return values.refuse(fmt::format("--numa-binding: '{}' is not known", printable(*text)),
                           "node, socket, exclusive or core-complex");
  }
  request.role = values.text("role");
  request.python_module = values.has("module");
  request.python_script = values.has("run-path");
  GPUWARDEN_TRY(request.shown_ranks, read_option(values, "local-ranks-filter", launch::parse_local_ranks));
  request.log_directory = values.text("log-dir");
  request.one_device_per_rank = values.has("one-gpu-per-rank");
  return launch::plan_run(std::move(request));
}

/// The word, and that there is something to restart with.
Result<bool> replaces_stragglers(const NamedValues& values) {
  const auto word = values.text("straggler");
  if (!word || word == "warn") return false;
  if (word != "restart")
    return values.refuse(fmt::format("--straggler: '{}' is not known", printable(*word)), "warn or restart");
  if (values.text("max-restarts").value_or("0") == "0")
    return values.refuse("--straggler restart needs --max-restarts", "how often the job may be started again");
  if (values.has("gpu-ids"))
    return values.refuse("--straggler restart and --gpu-ids cannot be used together",
                         "GPUs that are named are not replaced: -n N");
  return true;
}

/// What makes a job last, but for the meeting of its nodes. The times of that are given back.
Result<launch::RendezvousTimes> read_lasting(const NamedValues& values, bool elastic, healing::Options& options) {
  GPUWARDEN_TRY(const auto probation, duration_option(values, "probation"));
  options.probation = probation.value_or(options.probation);
  GPUWARDEN_TRY(auto times, read_option(values, "rdzv-conf", launch::parse_rendezvous_times));
  GPUWARDEN_TRY(options.replaces_stragglers, replaces_stragglers(values));
  if (values.has("checkpoint") && !elastic && !values.text("nnodes").value_or("").contains(':'))
    return values.refuse("--checkpoint requires a range of GPUs or nodes", "for example -n 2:4");
  options.checkpoint = values.text("checkpoint").value_or("");
  options.cpu_fallback = values.has("cpu-fallback");
  return std::move(times).value_or(launch::RendezvousTimes{});
}

}  // namespace

Result<Job> job_from(const NamedValues& values, JobRequest request) {
  Job job{.said = values, .command = join(request.argv, " ")};
  GPUWARDEN_TRY(job.options.run, run_options_from(values));
  GPUWARDEN_TRY(job.options.policy, restart_policy_from(values));
  GPUWARDEN_CHECK(time_limit_from(values, request.environment, system_clock()));
  const bool elastic = request.gpus.least.has_value();
  GPUWARDEN_TRY(launch::RendezvousTimes times, read_lasting(values, elastic, job.options));
  GPUWARDEN_TRY(job.plan, plan_from(values, {.argv = std::move(request.argv),
                                             .environment = std::move(request.environment),
                                             .config = std::move(request.config)}));
  job.options.meeting = healing::meeting_of(job.plan, job.options.policy, elastic);
  if (job.options.meeting) {
    job.options.meeting->patience = times.join.value_or(job.options.meeting->patience);
    job.options.meeting->last_call = times.last_call.value_or(job.options.meeting->last_call);
  }
  job.needless = std::move(times.needless);
  job.gpus = std::move(request.gpus);
  launch::complete(job.plan, job.gpus.gpus);
  return job;
}

}  // namespace gpuwarden::jobs
