// SPDX-License-Identifier: Apache-2.0
// What scontrol, sinfo and squeue say, asked for in forms that programs read. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/slurm/words.hpp"

namespace gpuwarden::slurm {

struct Node {
  std::string name;
  std::string state;           ///< as printed: "IDLE", "MIXED+DRAIN"
  std::string reason;          ///< why it is drained or down
  std::vector<GpuCount> gpus;  ///< it has
  std::vector<GpuCount> used;  ///< of them, by jobs
  std::optional<int> cpus;
  std::optional<int> cpus_used;
  std::vector<std::string> partitions;
  bool operator==(const Node&) const = default;
};
/// Whether it takes jobs: it is up, not drained, not reserved for something else.
bool takes_jobs(const Node& node);
/// The GPUs that a job could have at once, by type; none where the node takes no jobs.
std::vector<GpuCount> free_gpus(const Node& node);
/// How many GPUs of this type (of any: empty) there are among these.
int count_of(const std::vector<GpuCount>& gpus, std::string_view type);

struct Partition {
  std::string name;
  bool is_default = false;
  bool up = false;
  std::optional<std::chrono::seconds> default_time;
  std::optional<std::chrono::seconds> max_time;  ///< empty: no limit
  bool operator==(const Partition&) const = default;
};

struct Job {
  std::string id;
  std::string name;
  std::string user;
  std::string partition;
  std::string state;   ///< long form: "PENDING"; a word that is not known as it is
  std::string reason;  ///< Slurm's word
  std::string nodes;   ///< "gn[1-2]"; empty while it waits
  std::optional<int> node_count;
  std::string gpus;  ///< of each node, as asked for: "gres:gpu:h100:2"
  std::string submitted, started, time_limit, run_time;
  std::string log;                    ///< its standard output's file
  std::optional<int> exit_code = {};  ///< of ExitCode=7:0; empty where it is not told
  std::optional<int> signal;
  bool operator==(const Job&) const = default;
};
/// Whether a node is one of those that "gn[1-3,07],x" names, as Job::nodes has them.
bool names_node(std::string_view nodes, std::string_view node);
bool is_over(const Job& job);
/// What a shell would report of a job that is over: its own code, 128 + signal; 124 at the time limit as timeout(1),
/// 143 where it was cancelled, 137 without memory; 1 where a node was at fault.
int exit_code_of(const Job& job);

/// `scontrol show node -d -o`. Fails with corrupt where it tells of none.
Result<std::vector<Node>> parse_nodes(std::string_view text);
/// `scontrol show job -o`.
Result<std::vector<Job>> parse_jobs(std::string_view text);
/// What squeue is asked for, and its answer.
inline constexpr const char* kQueueFormat = "%i|%u|%P|%T|%r|%D|%b|%V|%S|%l|%M|%N|%j";
std::vector<Job> parse_queue(std::string_view text);
/// What sinfo is asked for, and its answer: a row for each partition.
inline constexpr const char* kPartitionFormat = "%P|%a|%l|%L";
std::vector<Partition> parse_partitions(std::string_view text);
/// `sacct -n -X -P -o JobID,State,ExitCode,NodeList`: a job that the controller has forgotten.
inline constexpr const char* kHistoryFormat = "JobID,State,ExitCode,NodeList,JobName";
std::vector<Job> parse_history(std::string_view text);
/// The value of a key in `scontrol show config`; empty where there is none.
std::string configured(std::string_view text, std::string_view key);

}  // namespace gpuwarden::slurm
