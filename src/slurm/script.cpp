// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/script.hpp"

#include <fmt/format.h>

#include <utility>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/words.hpp"

namespace gpuwarden::slurm {
namespace {

/// Jobs that share the first node meet at ports of their own, below those that systems hand out (Linux: 32768). The
/// address is the one that Slurm itself reaches the node at: its name need not be known to DNS. The script runs on the
/// first node: where something listens at the port already, the next one is taken, the same for all of them.
constexpr const char* kMeet =
    "first=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
    "MASTER_ADDR=$(scontrol show node \"$first\" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p') || true\n"
    "MASTER_ADDR=${MASTER_ADDR:-$first}\n"
    "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\nexport MASTER_ADDR MASTER_PORT\n"
    "for _ in 1 2 3 4 5 6 7 8; do\n"
    "  (exec 3<>\"/dev/tcp/$MASTER_ADDR/$MASTER_PORT\") 2>/dev/null || break\n"
    "  MASTER_PORT=$((20000 + (MASTER_PORT - 20000 + 1237) % 10000))\n"
    "done\n";

/// Starts gpuwarden with the node's own log and report: $0 is the program, $1 the job's folder.
constexpr const char* kOnNode =
    "'logs=$1/$SLURMD_NODENAME; shift; exec \"$0\" run --log-dir \"$logs\" --report \"$logs.json\" --status "
    "\"$logs.status\" \"$@\"'";

/// The same, on the GPUs with the numbers that Slurm granted.
constexpr const char* kOnNodeByNumber =
    "'logs=$1/$SLURMD_NODENAME; gpus=${SLURM_STEP_GPUS:-$SLURM_JOB_GPUS}; shift; unset CUDA_VISIBLE_DEVICES; exec "
    "\"$0\" "
    "run --log-dir \"$logs\" --report \"$logs.json\" --status \"$logs.status\" --gpu-ids \"$gpus\" \"$@\"'";

/// Slurm hands the variables of whoever submits on to the nodes: there torchrun's (PET_NNODES ...) would be options of
/// gpuwarden that the request was not checked with.
constexpr const char* kWithoutTorchrunsVariables = "unset ${!PET_@}";

/// The options that are a name and a text.
struct TextOption {
  const char* name;
  std::string BatchJob::* value;
};
constexpr TextOption kTexts[] = {
    {"partition", &BatchJob::partition},   {"account", &BatchJob::account},         {"qos", &BatchJob::qos},
    {"constraint", &BatchJob::constraint}, {"reservation", &BatchJob::reservation}, {"nodelist", &BatchJob::node_list},
    {"signal", &BatchJob::signal}};

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// The options that sbatch and srun share.
Pairs resources_of(const BatchJob& job) {
  Pairs options{{"job-name", job.name}, {"nodes", fmt::to_string(job.nodes)}, {"ntasks-per-node", "1"}};
  const std::string type = job.gpu_type.empty() ? "" : job.gpu_type + ":";
  if (job.gpus > 0 && job.gpu_option == GpuOption::gres)
    options.emplace_back("gres", fmt::format("gpu:{}{}", type, job.gpus));
  else if (job.gpus > 0)
    options.emplace_back("gpus-per-node", fmt::format("{}{}", type, job.gpus));
  // Without it srun gives a task one core.
  options.emplace_back("cpus-per-task", fmt::to_string(job.cpus));
  if (!job.memory.empty()) options.emplace_back("mem", job.memory);
  if (job.time) options.emplace_back("time", format_time(*job.time));
  for (const TextOption& option : kTexts) {
    if (!(job.*option.value).empty()) options.emplace_back(option.name, job.*option.value);
  }
  if (!job.exclude.empty()) options.emplace_back("exclude", join(job.exclude, ","));
  return options;
}

}  // namespace

std::string sbatch_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-[]&|*()";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return quoted + "\"";
}

Result<std::string> output_pattern(std::string_view path) {
  if (path.contains('\\'))
    return fail(ErrorCode::invalid_argument, fmt::format("Slurm writes no log into '{}'", printable(path)),
                "name a folder without a backslash: --log-dir");
  std::string pattern;
  for (const char c : path) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  return pattern;
}

std::string plain_name(std::string_view name) {
  std::string result;
  for (const char c : name.substr(0, 60)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    result += plain ? c : '-';
  }
  return result.empty() ? "train" : result;
}

Result<std::string> sbatch_script(const BatchJob& job) {
  Pairs options = resources_of(job);
  if (!job.output.empty()) options.emplace_back("output", job.output);
  std::string text = "#!/bin/bash\n";
  for (const auto& [name, value] : options) {
    if (value.find_first_of("\n\r") != std::string::npos)
      return fail(ErrorCode::invalid_argument, fmt::format("a line break in --{} for Slurm", name));
    text += fmt::format("#SBATCH --{}={}\n", name, sbatch_word(value));
  }
  if (!job.requeue) text += "#SBATCH --no-requeue\n";
  text += '\n';
  for (const std::string& note : job.notes) text += note + "\n";
  text += fmt::format("{}set -euo pipefail\n", job.notes.empty() ? "" : "\n");
  for (const std::string& line : job.setup) text += line + "\n";
  if (job.nodes > 1) text += kMeet;
  text += fmt::format("srun --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" --kill-on-bad-exit=1 {}\n", job.command);
  return text;
}

Result<BatchJob> job_of(BatchJob job, const NodeRun& run) {
  GPUWARDEN_TRY(const std::string folder, output_pattern(run.log_directory));
  job.output = folder + "/slurm-%j.out";
  const bool by_number = run.by_number && job.gpus > 0;
  // What restarts it chooses other nodes, and tells.
  job.requeue = false;
  job.setup = {fmt::format("logs={}/slurm-$SLURM_JOB_ID", shell_word(run.log_directory)), "mkdir -p \"$logs\"",
               kWithoutTorchrunsVariables};
  job.command = fmt::format("sh -c {} {} \"$logs\"", by_number ? kOnNodeByNumber : kOnNode, shell_word(run.program));
  if (job.nodes > 1)
    job.command += fmt::format(
        " --nnodes {} --master-addr \"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" --rdzv-id "
        "\"slurm-$SLURM_JOB_ID\"",
        job.nodes);
  if (job.gpus == 0)
    job.command += " --device cpu";
  else if (!by_number)
    job.command += fmt::format(" -n {}", job.gpus);
  for (const std::string& option : run.options) job.command += " " + shell_word(option);
  job.command += " --";
  for (const std::string& word : run.command) job.command += " " + shell_word(word);
  return job;
}

std::vector<std::string> srun_command(const BatchJob& job, bool terminal, const std::vector<std::string>& command) {
  std::vector<std::string> words{"srun"};
  for (const auto& [name, value] : resources_of(job)) words.push_back(fmt::format("--{}={}", name, value));
  if (terminal) words.emplace_back("--pty");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string logs_of(const std::string& log_directory, const std::string& job_id) {
  return fmt::format("{}/slurm-{}", log_directory, job_id);
}

std::string log_of(const std::string& log_directory, const std::string& job_id) {
  return logs_of(log_directory, job_id) + ".out";
}

}  // namespace gpuwarden::slurm
