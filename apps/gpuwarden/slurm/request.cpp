// SPDX-License-Identifier: Apache-2.0
#include "slurm/request.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/time_limit.hpp"
#include "options.hpp"
#include "run/other_launchers.hpp"
#include "slurm/job_options.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> wrong_job(std::string what, std::string hint = {}) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

/// What run decides by itself where Slurm places the job.
struct Refused {
  const char* key;
  const char* hint;
};
constexpr const char* kSlurmChooses = "Slurm chooses the GPUs: --gpus-per-node, --gpu-type";
constexpr const char* kSlurmMeets = "the nodes of a Slurm job find each other: --nodes says how many";
constexpr const char* kFixed = "a job of Slurm keeps its number of GPUs and nodes: --gpus-per-node N, --nodes N";
constexpr const char* kEachNode = "each node's report is in the log directory; --report gathers them";
constexpr auto kRefused = std::to_array<Refused>({
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
});
/// What is meant for us, not for the nodes: Slurm sends the signal, which the ranks must not hear twice.
constexpr auto kOurs =
    std::to_array<std::string_view>({"num-gpus", "device", "log-dir", "report", "max-restarts", "restart-arg",
                                     "no-report", "quiet", "color", "config", "json", "remote-program", "signal"});

/// The run's own options, as they were given.
std::vector<std::string> forwarded(const Context& context) {
  std::vector<std::string> ours(kOurs.begin(), kOurs.end());
  for (const Option& option : kSlurmJobOptions) ours.push_back(key_of(option));
  for (const Option& option : kSlurmRunOptions) ours.push_back(key_of(option));
  auto words = option_words(context, std::vector<std::string_view>(ours.begin(), ours.end()));
  if (const auto config = context.args.text("config")) {
    words.push_back("--config=" + fs::absolute(*config).string());
    // What the file says of restarts is done here, by submitting the job again.
    words.emplace_back("--max-restarts=0");
  }
  return words;
}

Result<std::optional<std::chrono::seconds>> time_option(const Args& args) {
  const auto text = args.text("time");
  if (!text) return std::nullopt;
  auto time = slurm::parse_time(*text);
  if (!time) {
    const auto duration = parse_duration(*text);
    if (duration) time = std::chrono::ceil<std::chrono::seconds>(*duration);
  }
  if (time && time->count() > 0) return time;
  return wrong_job(fmt::format("--time: '{}' is not a time", printable(*text)), "90 (minutes), 2:00:00, 1-12, 2h");
}

/// --signal as sbatch has it: the name, and how long before the end. Without a letter before it the ranks hear it.
Result<std::string> signal_option(const Args& args) {
  const auto text = args.text("signal");
  if (!text) return "";
  const auto early = launch::parse_early_signal(*text);
  if (!early) return std::unexpected(about("signal", early.error()));
  // sbatch(1): from 0 to 65535.
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(early->before).count();
  if (seconds > 65535)
    return wrong_job(fmt::format("--signal: {} s before the end are more than Slurm's 65535", seconds));
  const char* const name = sigabbrev_np(early->signal);
  return fmt::format("{}@{}", name == nullptr ? fmt::to_string(early->signal) : name, seconds);
}

/// --gpus-per-node, or its kin of `run`: -n, --device cpu; where none of them is given, a GPU for each rank.
Result<std::uint32_t> gpus_option(const Args& args) {
  if (args.text("gpus-per-node") == "0") return 0U;
  GPUWARDEN_TRY(const auto gpus, count_option(args, "gpus-per-node", 1024));
  GPUWARDEN_TRY(const auto same, count_option(args, "num-gpus", 1024));
  if (gpus && same && gpus != same)
    return wrong_job(fmt::format("--gpus-per-node {} and --num-gpus {} contradict each other", *gpus, *same),
                     "with --slurm both are the GPUs of each node");
  const auto device = args.text("device");
  if (device && device != "cpu" && device != "cuda")
    return wrong_job("--slurm and --device cuda:N mean nothing together", kSlurmChooses);
  if (device == "cpu" && (gpus || same)) return wrong_job("--device cpu takes no GPUs", "leave out --gpus-per-node");
  if (device == "cpu") return 0U;
  GPUWARDEN_TRY(const auto ranks, several_ranks(args));
  return gpus.value_or(same.value_or(ranks.value_or(1)));
}

/// "2" of --nproc-per-node with --one-gpu-per-rank and four GPUs is no mistake; no rank at all is.
Result<void> check_ranks(const Args& args, std::uint32_t gpus) {
  const auto ranks = args.text("nproc-per-node");
  if (gpus == 0 && (ranks == "gpu" || ranks == "auto"))
    return wrong_job("--nproc-per-node gpu, but no GPUs are asked for", "--gpus-per-node N, or --nproc-per-node N");
  if (!ranks || ranks == "gpu" || ranks == "auto" || ranks == "cpu") return {};
  GPUWARDEN_CHECK(count_option(args, "nproc-per-node", 4096));
  return {};
}

/// Absolute, made, and ours to write: the nodes are to find it under the same name.
Result<std::string> log_directory_of(const Args& args) {
  std::error_code error;
  const fs::path folder = fs::absolute(args.text("log-dir").value_or("."), error).lexically_normal();
  if (!error) fs::create_directories(folder, error);
  std::string name = folder.string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  if (!error && ::access(folder.c_str(), W_OK | X_OK) == 0) return name;
  return wrong_job(fmt::format("cannot write logs into {}", printable(name)),
                   "name a folder that you and the nodes can write: --log-dir");
}

Result<slurm::Policy> policy_of(const Args& args) {
  slurm::Policy policy;
  GPUWARDEN_TRY(const auto restarts, count_option(args, "max-restarts", 1000000));
  policy.max_restarts = restarts.value_or(0);
  if (args.has("restart-arg") && policy.max_restarts == 0)
    return wrong_job("--restart-arg needs --max-restarts", "how often the job may be submitted again");
  const std::string drain = args.text("drain").value_or("auto");
  if (drain != "auto" && drain != "always" && drain != "never")
    return wrong_job(fmt::format("--drain: unknown value '{}'", printable(drain)), "auto, always or never");
  policy.drains = drain == "auto" ? slurm::Drains::real : drain == "always" ? slurm::Drains::all : slurm::Drains::none;
  return policy;
}

}  // namespace

Result<void> fall_back_to_config_for_slurm(Context& context) {
  const std::string file = context.args.text("config").value_or("");
  GPUWARDEN_TRY(const auto keys, fall_back_to_config(context));
  for (const std::string& key : keys) {
    const auto refused = std::ranges::find(kRefused, key, &Refused::key);
    if (refused != kRefused.end())
      return wrong_job(fmt::format("--slurm and {} of {} mean nothing together", key, printable(file)), refused->hint);
    // The nodes read the file too, and Slurm sends the signal.
    if (key == "signal")
      return wrong_job(fmt::format("--slurm and {} of {} mean nothing together", key, printable(file)),
                       "write --signal on the command line: the ranks would hear it twice");
  }
  return {};
}

Result<void> check_for_slurm(const Args& args) {
  for (const Refused& one : kRefused) {
    if (args.has(one.key)) return wrong_job(fmt::format("--slurm and --{} mean nothing together", one.key), one.hint);
  }
  for (const char* key : {"num-gpus", "nproc-per-node"}) {
    if (args.text(key).value_or("").contains(':'))
      return wrong_job(fmt::format("--slurm and a range of --{} mean nothing together", key), kFixed);
  }
  if (args.has("signal") && args.has("time-limit"))
    return wrong_job("--slurm, --signal and --time-limit mean nothing together",
                     "Slurm sends the signal before the end of its own time: --time");
  return {};
}

std::string node_program(const Args& args) {
  if (const auto program = args.text("remote-program")) return *program;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  return error ? "gpuwarden" : own.string();
}

Result<std::string> known_partition(const Args& args, const slurm::Site& site) {
  std::string partition = args.text("partition").value_or("");
  const bool known = std::ranges::find(site.partitions, partition, &slurm::Partition::name) != site.partitions.end();
  if (partition.empty() || known) return partition;
  return fail(ErrorCode::not_found, fmt::format("there is no partition '{}'", printable(partition)), "see sinfo");
}

Result<slurm::Request> read_slurm_request(const Args& args) {
  slurm::Request request;
  GPUWARDEN_TRY(const auto nodes, count_option(args, "nodes", 65536));
  request.nodes = nodes.value_or(1);
  GPUWARDEN_TRY(request.gpus, gpus_option(args));
  GPUWARDEN_TRY(request.cpus, count_option(args, "cpus-per-task", 65536));
  GPUWARDEN_TRY(const auto memory, size_option(args, "mem"));
  if (memory) request.memory = fmt::format("{}M", (memory->value + (1U << 20U) - 1) >> 20U);
  GPUWARDEN_TRY(request.time, time_option(args));
  const auto text = [&](const char* key) { return args.text(key).value_or(""); };
  request.gpu_type = text("gpu-type");
  if (!request.gpu_type.empty() && request.gpus == 0)
    return wrong_job("--gpu-type, but no GPUs are asked for", "--gpus-per-node N");
  request.partition = text("partition");
  request.account = text("account");
  request.qos = text("qos");
  request.constraint = text("constraint");
  request.reservation = text("reservation");
  request.node_list = text("nodelist");
  GPUWARDEN_TRY(request.signal, signal_option(args));
  request.exclude = args.all("exclude-nodes");
  request.name =
      args.text("job-name")
          .value_or(
              args.rest.empty()
                  ? ""
                  : fs::path(args.rest.back().ends_with(".py") ? args.rest.back() : args.rest[0]).stem().string());
  return request;
}

Result<SlurmJob> read_slurm_job(const Context& context, const slurm::Site& site) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_for_slurm(args));
  if (args.rest.empty())
    return wrong_job("no command to run was given", "gpuwarden run --slurm --nodes 2 -- python train.py");
  GPUWARDEN_TRY(const slurm::Request request, read_slurm_request(args));
  GPUWARDEN_CHECK(check_ranks(args, request.gpus));
  SlurmJob result;
  GPUWARDEN_TRY(result.policy, policy_of(args));
  GPUWARDEN_TRY(auto placed, slurm::place(request, site));
  GPUWARDEN_TRY(result.log_directory, log_directory_of(args));
  slurm::NodeRun run{.program = node_program(args),
                     .log_directory = result.log_directory,
                     .by_number = !site.constrains_devices,
                     .options = forwarded(context),
                     .command = args.rest};
  // What is left when Slurm's patience ends dies with those who were to end it.
  if (!args.has("grace") && site.kill_wait && *site.kill_wait < 2 * launch::JobSpec{}.grace)
    run.options.push_back(fmt::format("--grace={}ms", std::chrono::milliseconds(*site.kill_wait).count() / 2));
  GPUWARDEN_TRY(result.job, slurm::job_of(placed.job, run));
  const auto again = args.all("restart-arg");
  run.command.insert(run.command.end(), again.begin(), again.end());
  GPUWARDEN_TRY(const slurm::BatchJob restarted, slurm::job_of(placed.job, run));
  result.policy.again_command = restarted.command;
  result.policy.log_directory = result.log_directory;
  result.decisions = std::move(placed.decisions);
  return result;
}

}  // namespace gpuwarden::cli
