// SPDX-License-Identifier: Apache-2.0
// What Slurm's tools print about a cluster: scontrol show node/job/partition/config (and slurm.conf's own lines),
// sinfo, squeue and sacct in whatever columns were asked for.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

enum class SlurmThing { node, job, partition, gres };

/// A record of scontrol or a row of a table, as printed.
struct SlurmRecord {
  SlurmThing thing = SlurmThing::node;
  std::uint32_t line = 0;
  /// By scontrol's key ("JobState") or the column's title in upper case ("NODELIST(REASON)"); a key may come twice.
  std::vector<std::pair<std::string, std::string>> cells;

  /// The first cell of one of these names that says something; empty where none does.
  std::string_view first(std::initializer_list<std::string_view> names) const;
};

struct SlurmText {
  std::uint32_t line = 0;  ///< of the first part
  std::vector<SlurmRecord> records;
  std::map<std::string, std::string, std::less<>> configuration;  ///< of scontrol show config
  std::string date;                                               ///< of the configuration: "2023-08-02T15:34:19"
  std::optional<facts::SlurmCpus> cpus;                           ///< of sinfo -o %C alone
};

/// Takes Slurm's lines out of `lines` (their texts become empty); nothing where there are none.
std::optional<SlurmText> take_slurm(std::vector<Line>& lines);
facts::Snapshot snapshot_of_slurm(const SlurmText& text);

/// Reads the scontrol record that begins at the first line; the length is 0 where none does.
std::size_t read_slurm_record(std::span<const Line> lines, SlurmRecord& record);
/// Reads the table whose header the first line is; the length is 0 where it is none.
std::size_t read_slurm_table(std::span<const Line> lines, std::vector<SlurmRecord>& records);
/// A row of squeue or sacct without its header: a job's number and its state. Its cells are JOBID, STATE and TRES.
std::optional<SlurmRecord> headless_job(const Line& line);

/// A row of sinfo without its header: a node, or how many nodes are in a state or have some GPUs.
std::optional<SlurmRecord> headless_node(const Line& line);

/// Slurm's long word for a job's state: "RUNNING" of "R", "CANCELLED" of "CANCELLED by 1000"; empty for other words.
std::string_view job_state(std::string_view text);
/// "idle", "mixed-", "MAINTENANCE+DRAIN", "down*".
bool is_node_state(std::string_view text);
/// "30214", "42953390_320", "591970_[2-7%1]", "3557891.extern".
bool is_job_id(std::string_view text);

/// 4 of "gpu:a100:4(S:0-1),ssd:1"; nothing where no GPUs are named.
std::optional<int> gpus_of_gres(std::string_view text);
/// 8 of "cpu=256,node=1,gres/gpu=8"; nothing where no GPUs are named.
std::optional<int> gpus_of_tres(std::string_view text);

}  // namespace gpuwarden::capture
