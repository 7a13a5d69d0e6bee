// SPDX-License-Identifier: Apache-2.0
#include "run/request.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/torchrun_words.hpp"
#include "gpuwarden/machine/fleets.hpp"

namespace gpuwarden::cli {
namespace {

using launch::RunRequest;

std::unexpected<Error> wrong(std::string what, std::string hint = {}) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

/// "gpu", "auto" and a range: a rank for each GPU; "cpu": one for each CPU that we may use.
Result<void> read_ranks(const Args& args, RunRequest& request) {
  const auto ranks = args.text("nproc-per-node");
  if (!ranks) return {};
  request.rank_per_gpu = ranks == "gpu" || ranks == "auto" || ranks->contains(':');
  if (*request.rank_per_gpu) return {};
  if (ranks == "cpu") {
    cpu_set_t own;
    CPU_ZERO(&own);
    request.ranks = ::sched_getaffinity(0, sizeof own, &own) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&own)) : 1;
    return {};
  }
  GPUWARDEN_TRY(request.ranks, count_option(args, "nproc-per-node", 4096));
  return {};
}

/// "2", or "1:4": torchrun's range.
Result<void> read_nodes(const Args& args, RunRequest& request) {
  GPUWARDEN_TRY(const auto nodes, range_option(args, "nnodes", 65536));
  if (!nodes) return {};
  request.nodes = nodes->most;
  if (nodes->least < nodes->most) request.least_nodes = nodes->least;
  return {};
}

/// Where the nodes meet: --master-addr and --master-port, or both in torchrun's --rdzv-endpoint.
Result<void> read_meeting_place(const Args& args, RunRequest& request) {
  GPUWARDEN_TRY(const auto port, count_option(args, "master-port", 65535));
  if (port) request.master_port = static_cast<std::uint16_t>(*port);
  request.master_address = args.text("master-addr");
  request.rendezvous_id = args.text("rdzv-id");
  const auto backend = args.text("rdzv-backend");
  if (backend && backend != "c10d" && backend != "static")
    return wrong(fmt::format("--rdzv-backend: '{}' is not known", printable(*backend)),
                 "c10d or static: nodes meet without a server of their own");
  const auto endpoint = args.text("rdzv-endpoint");
  if (!endpoint) return {};
  if (args.has("master-addr") || args.has("master-port"))
    return wrong("--rdzv-endpoint names the address and the port already", "leave out --master-addr and --master-port");
  const auto place = launch::parse_rendezvous_endpoint(*endpoint);
  if (!place) return std::unexpected(about("rdzv-endpoint", place.error()));
  request.master_address = place->host;
  if (place->port != 0) request.master_port = place->port;
  return {};
}

/// Which of the nodes this is; torchrun's c10d finds that out, here it is told or Slurm's.
Result<void> read_node_rank(const Context& context, RunRequest& request) {
  GPUWARDEN_TRY(request.node_rank, count_option(context.args, "node-rank", 65535));
  if (request.node_rank || request.nodes.value_or(1) == 1) return {};
  const auto slurm = context.environment.find("SLURM_NODEID");
  const auto number = slurm == context.environment.end() ? std::nullopt : parse_integer(slurm->second);
  if (number && *number >= 0 && *number <= 65535) request.node_rank = static_cast<std::uint32_t>(*number);
  if (request.node_rank || !context.args.has("rdzv-endpoint")) return {};
  return wrong(fmt::format("which of the {} nodes is this?", *request.nodes),
               "--node-rank 0 on the endpoint's, 1, 2 ...");
}

Result<std::optional<placement::BindTo>> bind_option(const Args& args) {
  const auto text = args.text("numa-binding");
  if (!text) return std::nullopt;
  const auto bind = placement::bind_to_from(*text);
  if (!bind)
    return wrong(fmt::format("--numa-binding: '{}' is not known", printable(*text)),
                 "node, socket, exclusive or core-complex");
  return bind;
}

/// Those that say the opposite of each other.
Result<void> check_launch_options(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"standalone", "node-rank", "--standalone is one node"},
      {"standalone", "rdzv-endpoint", "--standalone finds a free port"},
      {"standalone", "master-port", "--standalone finds a free port"},
      {"module", "no-python", "a module is run by Python"},
      {"run-path", "no-python", "--run-path is for a program of Python's"},
      {"run-path", "module", "a module is named, not a program's path"},
  });
  // torchrun's own examples write --standalone --nnodes 1.
  if (args.has("standalone") && args.has("nnodes") && args.text("nnodes") != "1" && args.text("nnodes") != "1:1")
    return wrong("--standalone and --nnodes exclude each other: --standalone is one node");
  return check_clashes(args, kClashes);
}

/// What is written at the end is tried at the start.
Result<void> check_outputs(const Args& args) {
  for (const char* option : {"report", "post-mortem"}) {
    const auto file = args.text(option);
    if (file && !can_write_output(*file)) return wrong(fmt::format("--{}: cannot write {}", option, printable(*file)));
  }
  return {};
}

}  // namespace

Result<launch::StreamChoice> streams_option(const Args& args, const std::string& key) {
  const auto text = args.text(key);
  if (!text) return launch::StreamChoice{};
  auto choice = launch::StreamChoice::parse(*text);
  if (!choice) return std::unexpected(about(key, choice.error()));
  return choice;
}

Result<launch::RunPlan> read_plan(const Context& context, const Selection& selection) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_launch_options(args));
  RunRequest request{.argv = args.rest, .environment = context.environment, .config = selection.config};
  GPUWARDEN_CHECK(read_ranks(args, request));
  GPUWARDEN_CHECK(read_nodes(args, request));
  GPUWARDEN_CHECK(read_meeting_place(args, request));
  GPUWARDEN_CHECK(read_node_rank(context, request));
  GPUWARDEN_TRY(request.grace, duration_option(args, "grace"));
  GPUWARDEN_TRY(request.redirects, streams_option(args, "redirects"));
  GPUWARDEN_TRY(request.tee, streams_option(args, "tee"));
  GPUWARDEN_TRY(request.bind, bind_option(args));
  request.role = args.text("role");
  request.python_module = args.has("module");
  request.python_script = args.has("run-path");
  if (const auto text = args.text("local-ranks-filter")) {
    auto ranks = launch::parse_local_ranks(*text);
    if (!ranks) return std::unexpected(about("local-ranks-filter", ranks.error()));
    request.shown_ranks = std::move(*ranks);
  }
  request.log_directory = args.text("log-dir");
  request.one_device_per_rank = args.has("one-gpu-per-rank");
  return launch::plan_run(std::move(request));
}

Result<healing::RestartPolicy> read_policy(const Args& args) {
  healing::RestartPolicy policy;
  GPUWARDEN_TRY(const auto restarts, count_option(args, "max-restarts", 1000000));
  policy.max_restarts = restarts.value_or(0);
  policy.heal = args.has("heal");
  GPUWARDEN_TRY(const auto pause, duration_option(args, "restart-delay"));
  if (pause) policy.first_pause = *pause;
  policy.restart_arguments = args.all("restart-arg");
  for (const char* option : {"heal", "restart-delay", "restart-arg"}) {
    if (args.has(option) && !args.has("max-restarts"))
      return wrong(fmt::format("--{} needs --max-restarts", option), "how often the job may be started again");
  }
  return policy;
}

Result<launch::RunOptions> read_run_options(const Args& args) {
  launch::RunOptions options;
  GPUWARDEN_TRY(const auto period, duration_option(args, "sample-period"));
  if (period) options.sample_period = std::max(*period, std::chrono::milliseconds(10));
  GPUWARDEN_TRY(const auto hang, duration_option(args, "hang-timeout"));
  if (hang && *hang < std::chrono::seconds(1))
    return wrong("--hang-timeout: at least a second is needed to look twice");
  options.hang_timeout = hang.value_or(options.hang_timeout);
  if (const auto text = args.text("sim-load")) {
    const auto load = machine::parse_load(*text);
    if (!load) return std::unexpected(about("sim-load", load.error()));
    options.load = *load;
  }
  GPUWARDEN_CHECK(check_outputs(args));
  return options;
}

}  // namespace gpuwarden::cli
