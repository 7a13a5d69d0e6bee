// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/on_slurm.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/time_limit.hpp"
#include "gpuwarden/slurm/survey.hpp"
#include "jobs/meaningless.hpp"

namespace gpuwarden::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSlurmChooses = "Slurm chooses the GPUs: --gpus-per-node, --gpu-type";
constexpr const char* kSlurmMeets = "the nodes of a Slurm job find each other: --nodes says how many";
constexpr const char* kFixed = "a job of Slurm keeps its number of GPUs and nodes: --gpus-per-node N, --nodes N";
constexpr const char* kEachNode = "each node's report is in the log directory; --report gathers them";
/// What a run decides by itself where Slurm does not place it.
constexpr Meaningless kWithSlurm[] = {
    {"gpu-ids", kSlurmChooses},
    {"all", kSlurmChooses},
    {"prefer", kSlurmChooses},
    {"share", kSlurmChooses},
    {"mig", kSlurmChooses},
    {"mig-profile", kSlurmChooses},
    {"model", kSlurmChooses},
    {"model-size", kSlurmChooses},
    {"nnodes", kSlurmMeets},
    {"node-rank", kSlurmMeets},
    {"master-addr", kSlurmMeets},
    {"master-port", kSlurmMeets},
    {"rdzv-endpoint", kSlurmMeets},
    {"rdzv-id", kSlurmMeets},
    {"standalone", kSlurmMeets},
    {"record", kEachNode},
    {"post-mortem", kEachNode},
    {"exclude", "--exclude-nodes leaves out nodes"},
    {"wait", "Slurm's queue is the line that the job waits in"},
    {"cpu-fallback", "--gpus-per-node 0 runs on the CPU"},
    {"heal", "a job is submitted again as it is, on other nodes where a GPU failed"},
    {"checkpoint", kFixed},
    {"probation", "a node whose GPU failed is not used again by the job"},
    {"priority", "Slurm orders the jobs that wait: --qos"},
    {"end-leftovers", "run it on the node itself: srun -w NODE gpuwarden run --end-leftovers RUN"},
    {"restart-delay", "a job that is submitted again waits in Slurm's queue"},
    {"straggler", "a GPU that is far behind is warned of on its node"},
    {"rdzv-conf", kSlurmMeets},
    {"status", "each node's is in the log directory"},
};
/// What is meant for us, not for the nodes: Slurm sends the signal, which the ranks must not hear twice.
constexpr auto kOurs =
    std::to_array<std::string_view>({"num-gpus", "device", "log-dir", "report", "max-restarts", "restart-arg",
                                     "no-report", "quiet", "color", "config", "json", "remote-program", "signal"});

Result<std::optional<std::chrono::seconds>> time_option(const NamedValues& values) {
  const auto text = values.text("time");
  if (!text) return std::nullopt;
  auto time = slurm::parse_time(*text);
  if (!time) {
    const auto duration = parse_duration(*text);
    if (duration) time = std::chrono::ceil<std::chrono::seconds>(*duration);
  }
  if (time && time->count() > 0) return time;
  return values.refuse(fmt::format("--time: '{}' is not a time", printable(*text)), "90 (minutes), 2:00:00, 1-12, 2h");
}

/// --signal as sbatch has it: the name, and how long before the end. Without a letter before it the ranks hear it.
Result<std::string> signal_option(const NamedValues& values) {
  GPUWARDEN_TRY(const auto early, read_option(values, "signal", launch::parse_early_signal));
  if (!early) return "";
  // sbatch(1): from 0 to 65535.
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(early->before).count();
  if (seconds > 65535)
    return values.refuse(fmt::format("--signal: {} s before the end are more than Slurm's 65535", seconds));
  const char* const name = sigabbrev_np(early->signal);
  return fmt::format("{}@{}", name == nullptr ? fmt::to_string(early->signal) : name, seconds);
}

/// --gpus-per-node, or its kin of `run`: -n, --device cpu; where none of them is given, a GPU for each rank.
Result<std::uint32_t> gpus_option(const NamedValues& values) {
  if (values.text("gpus-per-node") == "0") return 0U;
  GPUWARDEN_TRY(const auto gpus, count_option(values, "gpus-per-node", 1024));
  GPUWARDEN_TRY(const auto same, count_option(values, "num-gpus", 1024));
  if (gpus && same && gpus != same)
    return values.refuse(fmt::format("--gpus-per-node {} and --num-gpus {} contradict each other", *gpus, *same),
                         "with --slurm both are the GPUs of each node");
  const auto device = values.text("device");
  if (device && device != "cpu" && device != "cuda")
    return values.refuse("--slurm and --device cuda:N mean nothing together", kSlurmChooses);
  if (device == "cpu" && (gpus || same))
    return values.refuse("--device cpu takes no GPUs", "leave out --gpus-per-node");
  if (device == "cpu") return 0U;
  GPUWARDEN_TRY(const auto ranks, several_ranks(values));
  return gpus.value_or(same.value_or(ranks.value_or(1)));
}

/// "2" of --nproc-per-node with --one-gpu-per-rank and four GPUs is no mistake; no rank at all is.
Result<void> check_ranks(const NamedValues& values, std::uint32_t gpus) {
  const auto ranks = values.text("nproc-per-node");
  if (gpus == 0 && (ranks == "gpu" || ranks == "auto"))
    return values.refuse("--nproc-per-node gpu, but no GPUs are asked for", "--gpus-per-node N, or --nproc-per-node N");
  if (!ranks || ranks == "gpu" || ranks == "auto" || ranks == "cpu") return {};
  GPUWARDEN_CHECK(count_option(values, "nproc-per-node", 4096));
  return {};
}

/// Absolute, made, and ours to write: the nodes are to find it under the same name.
Result<std::string> log_directory_of(const NamedValues& values) {
  std::error_code error;
  const fs::path folder = fs::absolute(values.text("log-dir").value_or("."), error).lexically_normal();
  if (!error) fs::create_directories(folder, error);
  std::string name = folder.string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  if (!error && ::access(folder.c_str(), W_OK | X_OK) == 0) return name;
  return values.refuse(fmt::format("cannot write logs into {}", printable(name)),
                       "name a folder that you and the nodes can write: --log-dir");
}

Result<slurm::Policy> policy_of(const NamedValues& values) {
  slurm::Policy policy;
  GPUWARDEN_TRY(const auto restarts, count_option(values, "max-restarts", 1000000));
  policy.max_restarts = restarts.value_or(0);
  if (values.has("restart-arg") && policy.max_restarts == 0)
    return values.refuse("--restart-arg needs --max-restarts", "how often the job may be submitted again");
  const std::string drain = values.text("drain").value_or("auto");
  if (drain != "auto" && drain != "always" && drain != "never")
    return values.refuse(fmt::format("--drain: unknown value '{}'", printable(drain)), "auto, always or never");
  policy.drains = drain == "auto" ? slurm::Drains::real : drain == "always" ? slurm::Drains::all : slurm::Drains::none;
  return policy;
}

}  // namespace

std::span<const std::string_view> names_kept_from_nodes() { return kOurs; }

Result<void> check_file_for_slurm(std::span<const std::string> names, std::string_view file) {
  const auto refuse = [&](std::string_view name, const char* hint) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--slurm and {} of {} mean nothing together", name, printable(file)), hint);
  };
  for (const std::string& name : names) {
    const auto* const refused = std::ranges::find(kWithSlurm, name, &Meaningless::name);
    if (refused != std::end(kWithSlurm)) return refuse(name, refused->hint);
    // The nodes read the file too, and Slurm sends the signal.
    if (name == "signal") return refuse(name, "write --signal on the command line: the ranks would hear it twice");
  }
  return {};
}

Result<void> check_for_slurm(const NamedValues& values) {
  for (const Meaningless& one : kWithSlurm) {
    if (values.has(one.name))
      return values.refuse(fmt::format("--slurm and --{} mean nothing together", one.name), one.hint);
  }
  for (const char* name : {"num-gpus", "nproc-per-node"}) {
    if (values.text(name).value_or("").contains(':'))
      return values.refuse(fmt::format("--slurm and a range of --{} mean nothing together", name), kFixed);
  }
  if (values.has("signal") && values.has("time-limit"))
    return values.refuse("--slurm, --signal and --time-limit mean nothing together",
                         "Slurm sends the signal before the end of its own time: --time");
  return {};
}

Result<slurm::Request> slurm_request_from(const NamedValues& values, const std::vector<std::string>& argv) {
  slurm::Request request;
  GPUWARDEN_TRY(const auto nodes, count_option(values, "nodes", 65536));
  request.nodes = nodes.value_or(1);
  GPUWARDEN_TRY(request.gpus, gpus_option(values));
  GPUWARDEN_TRY(request.cpus, count_option(values, "cpus-per-task", 65536));
  GPUWARDEN_TRY(const auto memory, size_option(values, "mem"));
  if (memory) request.memory = fmt::format("{}M", (memory->value + (1U << 20U) - 1) >> 20U);
  GPUWARDEN_TRY(request.time, time_option(values));
  const auto text = [&](const char* key) { return values.text(key).value_or(""); };
  request.gpu_type = text("gpu-type");
  if (!request.gpu_type.empty() && request.gpus == 0)
    return values.refuse("--gpu-type, but no GPUs are asked for", "--gpus-per-node N");
  request.partition = text("partition");
  request.account = text("account");
  request.qos = text("qos");
  request.constraint = text("constraint");
  request.reservation = text("reservation");
  request.node_list = text("nodelist");
  GPUWARDEN_TRY(request.signal, signal_option(values));
  request.exclude = values.all("exclude-nodes");
  request.name =
      values.text("job-name")
          .value_or(argv.empty() ? "" : fs::path(argv.back().ends_with(".py") ? argv.back() : argv[0]).stem().string());
  return request;
}

Result<SlurmJob> slurm_job_from(const NamedValues& values, SlurmJobRequest request, const slurm::Site& site) {
  GPUWARDEN_CHECK(check_for_slurm(values));
  if (request.argv.empty())
    return fail(ErrorCode::invalid_argument, "no command to run was given",
                "gpuwarden run --slurm --nodes 2 -- python train.py");
  GPUWARDEN_TRY(const slurm::Request asked, slurm_request_from(values, request.argv));
  GPUWARDEN_CHECK(check_ranks(values, asked.gpus));
  SlurmJob result;
  GPUWARDEN_TRY(result.policy, policy_of(values));
  GPUWARDEN_TRY(auto placed, slurm::place(asked, site));
  GPUWARDEN_TRY(result.log_directory, log_directory_of(values));
  slurm::NodeRun run{.program = std::move(request.program),
                     .log_directory = result.log_directory,
                     .by_number = !site.constrains_devices,
                     .options = std::move(request.options),
                     .command = std::move(request.argv)};
  // What is left when Slurm's patience ends dies with those who were to end it.
  if (!values.has("grace") && site.kill_wait && *site.kill_wait < 2 * launch::JobSpec{}.grace)
    run.options.push_back(fmt::format("--grace={}ms", std::chrono::milliseconds(*site.kill_wait).count() / 2));
  GPUWARDEN_TRY(result.job, slurm::job_of(placed.job, run));
  const auto again = values.all("restart-arg");
  run.command.insert(run.command.end(), again.begin(), again.end());
  GPUWARDEN_TRY(const slurm::BatchJob restarted, slurm::job_of(placed.job, run));
  result.policy.again_command = restarted.command;
  result.policy.log_directory = result.log_directory;
  result.decisions = std::move(placed.decisions);
  return result;
}

Result<std::string> known_partition(const std::string& name, const slurm::Site& site) {
  const bool known = std::ranges::find(site.partitions, name, &slurm::Partition::name) != site.partitions.end();
  if (name.empty() || known) return name;
  return fail(ErrorCode::not_found, fmt::format("there is no partition '{}'", printable(name)), "see sinfo");
}

doctor::Survey examine_nodes(slurm::Programs& programs, const slurm::Site& site, const std::string& partition,
                             const std::vector<std::string>& command, const knowledge::Knowledge& knowledge) {
  std::vector<doctor::MachineAnswer> answers;
  for (slurm::NodeAnswer& one : slurm::survey(programs, slurm::plan_survey(site, partition, command)))
    answers.push_back({std::move(one.node), std::move(one.output), std::move(one.problem)});
  return doctor::survey(std::move(answers), knowledge);
}

}  // namespace gpuwarden::jobs
