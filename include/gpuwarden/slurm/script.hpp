// SPDX-License-Identifier: Apache-2.0
// A batch script for sbatch. Pure: what is written here is all that Slurm is told of a job.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::slurm {

/// How a site's Slurm is asked for GPUs.
enum class GpuOption {
  gres,      ///< --gres=gpu:h100:4; every Slurm takes it
  per_node,  ///< --gpus-per-node=h100:4; select/cons_tres alone
};

/// A job of one task on each node, which starts the node's ranks. What is empty is left to Slurm.
struct BatchJob {
  std::string name = "gpuwarden";
  std::uint32_t nodes = 1;
  std::uint32_t gpus = 0;  ///< of each node; 0: none
  std::string gpu_type;
  GpuOption gpu_option = GpuOption::gres;
  std::uint32_t cpus = 1;  ///< of each node
  std::string memory;      ///< of each node: "64G"
  std::optional<std::chrono::seconds> time;
  std::string partition, account, qos, constraint, reservation, node_list;
  std::vector<std::string> exclude;  ///< nodes
  std::string signal;                ///< "USR1@60": to the tasks, so long before the time limit
  std::string output;                ///< the log; %x is the job's name, %j its number
  bool requeue = true;               ///< whether Slurm may start it again by itself
  std::vector<std::string> notes;    ///< comment lines, with their hashes
  std::vector<std::string> setup;    ///< lines of shell, before the nodes meet
  std::string command;               ///< what srun starts on every node, as the shell shall see it
  bool operator==(const BatchJob&) const = default;
};

/// The whole script. Several nodes meet at MASTER_ADDR and MASTER_PORT. Fails with invalid_argument on what a line of
/// #SBATCH cannot hold (a line break).
Result<std::string> sbatch_script(const BatchJob& job);

/// The text as sbatch takes it behind an option in a line of #SBATCH.
std::string sbatch_word(std::string_view text);
/// A path without its special meaning in --output: '%' is doubled. Fails with invalid_argument on a backslash, which
/// would take all of them their meaning.
Result<std::string> output_pattern(std::string_view path);
/// A name that sbatch takes as one word.
std::string plain_name(std::string_view name);

/// What is to run inside a job: `gpuwarden run` once on each node, with its log and report beside the others'.
struct NodeRun {
  std::string program = "gpuwarden";  ///< on the nodes
  std::string log_directory;          ///< absolute; gets a folder slurm-JOB
  /// Name the GPUs that Slurm granted instead of leaving it to CUDA_VISIBLE_DEVICES: where a job sees the others too,
  /// its numbers mean other GPUs once one is lost.
  bool by_number = false;
  std::vector<std::string> options;  ///< of `gpuwarden run`
  std::vector<std::string> command;
};
/// The job with setup, command and output for this.
Result<BatchJob> job_of(BatchJob job, const NodeRun& run);
/// srun's words for the same nodes, at once and in the foreground; with a terminal for it where there is one.
std::vector<std::string> srun_command(const BatchJob& job, bool terminal, const std::vector<std::string>& command);
/// The folder of a job's logs and reports, and its own log.
std::string logs_of(const std::string& log_directory, const std::string& job_id);
std::string log_of(const std::string& log_directory, const std::string& job_id);

}  // namespace gpuwarden::slurm
