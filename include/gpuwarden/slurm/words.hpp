// SPDX-License-Identifier: Apache-2.0
// Slurm's own words: states, reasons, times and counts of GPUs. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::slurm {

/// A state of a job.
struct JobStateRow {
  std::string_view code;   ///< squeue's short form: "PD"
  std::string_view name;   ///< "PENDING"
  std::string_view words;  ///< "waits"
  bool over = false;       ///< nothing follows
};
/// Every state. Source: squeue(1), JOB STATE CODES.
std::span<const JobStateRow> job_states();
/// The row of "PENDING", "PD" or "CANCELLED by 1000"; nullptr for another word.
const JobStateRow* find_job_state(std::string_view text);

/// Why a job waits or ended, in words: "Priority" becomes a sentence, "QOSMaxGRESPerUser" one about limits of the
/// quality of service. A reason that is not known comes back as it is; "None" and nothing are empty.
std::string reason_words(std::string_view reason);
/// Whether the reason will not pass by itself: somebody has to change the job, or the cluster.
bool needs_change(std::string_view reason);

/// "30" (minutes), "30:00", "1:30:00", "2-12", "2-12:30:00". Nothing for other texts, "infinite" among them. Source:
/// sbatch(1), --time.
std::optional<std::chrono::seconds> parse_time(std::string_view text);
/// "1:30:00", "36:00:00": as sbatch takes it.
std::string format_time(std::chrono::seconds time);

/// Pieces between commas that stand outside of brackets: "gn[1,3],gn7" has two.
std::vector<std::string_view> entries_in(std::string_view text);

/// GPUs of one type.
struct GpuCount {
  std::string type;  ///< empty where the site names none
  int count = 0;
  bool operator==(const GpuCount&) const = default;
};
/// The GPUs among "gpu:a100:4(S:0-1),ssd:1", "gres:gpu:2", "gpu:(null):0(IDX:N/A)"; a name alone is one.
std::vector<GpuCount> gpus_in_gres(std::string_view text);
/// All of them; ten millions where there are more, which is damage.
int sum_of(std::span<const GpuCount> gpus);

}  // namespace gpuwarden::slurm
