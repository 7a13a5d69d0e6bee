// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden run` wrote on each node of a job, gathered, and what follows from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/slurm/records.hpp"

namespace gpuwarden::slurm {

/// One GPU of a node, as the report of its run sums it up; what it does not tell is empty.
struct GpuLine {
  int index = -1;
  std::string name;
  std::string trouble;
  std::optional<double> mean_utilization;  ///< percent
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<double> energy_joules;
};

struct NodeReport {
  std::string node;
  bool readable = false;  ///< false: what is there is no report; the rest is empty
  bool simulated = false;
  std::optional<int> exit_code;
  std::optional<bool> interrupted;  ///< a signal was forwarded to its ranks
  std::size_t ranks = 0;
  std::vector<GpuLine> gpus;
  std::string restart;              ///< of the last try: "never", "again", "other_gpus"; empty where none failed
  std::string why;                  ///< what decided that
  std::vector<std::string> faults;  ///< GPUs that keep the node from being used: "GPU 3: the GPU is lost ..."
  std::string document;             ///< the report itself, as JSON; empty where it cannot be read
};

/// The reports in a job's folder (NODE.json), by node. What cannot be read is told as such. The job's own ranks may
/// write there, too, and an earlier job of the same number may have: only reports of `nodes` (Job::nodes) count, and
/// none that was written before `since`.
std::vector<NodeReport> read_reports(const std::filesystem::path& folder, const std::string& nodes,
                                     std::optional<Clock::WallTime> since = {});
NodeReport read_report(std::string node, std::string_view text);

/// What the GPUs of a node of the job do just now (gpuwarden run --status); what it does not tell is empty.
struct NodeStatus {
  std::string node;
  bool simulated = false;
  std::optional<Clock::WallTime> time;  ///< when the GPUs were read, by the node's clock
  std::size_t gpus = 0;
  std::vector<double> utilization;  ///< percent, of the GPUs that tell it
  std::optional<std::uint64_t> memory_used_bytes;
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<double> hottest_celsius;
  std::optional<double> power_watts;
  std::size_t in_trouble = 0;  ///< that do not answer, are lost, need a reset
};
/// Of each node whose file (NODE.status) is there and can be read; as read_reports() has `nodes`. What is older than a
/// few turns of its writing is left out, as is what does not tell its time; clocks may be 5 minutes apart.
std::vector<NodeStatus> read_statuses(const std::filesystem::path& folder, const std::string& nodes,
                                      Clock::WallTime now);
NodeStatus read_status(std::string node, std::string_view text);

/// The node that failed by itself, not because it was ended with others; nullptr where none is seen.
const NodeReport* guilty_of(const std::vector<NodeReport>& reports);

/// A node that is not to be used again for this job.
struct NodeFault {
  std::string node;
  std::string reason;
  bool simulated = false;  ///< its GPUs are
  bool operator==(const NodeFault&) const = default;
};

/// Whether another try makes sense.
struct Verdict {
  bool again = false;
  std::string why;  ///< a sentence
  std::vector<NodeFault> faults;
};
/// Judges a job that is over. `saves`: it is told before its time limit, so that it can go on where it was. Pure.
Verdict judge(const Job& job, const std::vector<NodeReport>& reports, bool saves);

}  // namespace gpuwarden::slurm
