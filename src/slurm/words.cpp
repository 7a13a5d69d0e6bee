// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::slurm {
namespace {

/// Source: squeue(1), JOB STATE CODES.
constexpr auto kJobStates = std::to_array<JobStateRow>({
    {"BF", "BOOT_FAIL", "a node did not start", true},
    {"CA", "CANCELLED", "was cancelled", true},
    {"CD", "COMPLETED", "has ended well", true},
    {"CF", "CONFIGURING", "has its nodes, which get ready"},
    {"CG", "COMPLETING", "is ending"},
    {"DL", "DEADLINE", "was ended at its deadline", true},
    {"F", "FAILED", "has failed", true},
    {"NF", "NODE_FAIL", "lost a node", true},
    {"OOM", "OUT_OF_MEMORY", "ran out of host memory", true},
    {"PD", "PENDING", "waits"},
    {"PR", "PREEMPTED", "made room for another job", true},
    {"R", "RUNNING", "runs"},
    {"RD", "RESV_DEL_HOLD", "is held: its reservation was deleted"},
    {"RF", "REQUEUE_FED", "is queued again by the federation"},
    {"RH", "REQUEUE_HOLD", "is queued again, and held"},
    {"RQ", "REQUEUED", "is queued again"},
    {"RS", "RESIZING", "changes its size"},
    {"RV", "REVOKED", "runs in another cluster", true},
    {"SI", "SIGNALING", "gets a signal"},
    {"SE", "SPECIAL_EXIT", "is queued again in a special state, and held"},
    {"SO", "STAGE_OUT", "writes its files out"},
    {"ST", "STOPPED", "is stopped, and keeps its nodes"},
    {"S", "SUSPENDED", "is suspended"},
    {"TO", "TIMEOUT", "reached its time limit", true},
    {"LF", "LAUNCH_FAILED", "could not be started", true},
    {"RC", "RECONFIG_FAIL", "a node could not be prepared", true},
});

struct ReasonRow {
  std::string_view reason;  ///< a whole word, or with a '*' at its end what it begins with
  std::string_view words;
  bool needs_change = false;
};
/// Source: squeue(1), JOB REASON CODES. The first one that fits.
constexpr auto kReasons = std::to_array<ReasonRow>({
    {"Resources", "it is next, and waits until enough nodes and GPUs are free"},
    {"Priority", "jobs with a higher priority are before it"},
    {"Dependency", "it waits for the jobs that it depends on"},
    {"DependencyNeverSatisfied", "a job that it depends on ended otherwise than asked for: it will never start", true},
    {"BeginTime", "its start time has not come yet"},
    {"JobHeldUser", "it is held by its owner (scontrol release)", true},
    {"JobHeldAdmin", "it is held by an administrator", true},
    {"JobHoldMaxRequeue", "it was queued again too often, and is held", true},
    {"launch failed requeued held", "it could not be started, was queued again, and is held", true},
    {"PartitionDown", "the partition is down"},
    {"PartitionInactive", "the partition starts no jobs"},
    {"PartitionNodeLimit", "it asks for more nodes than the partition allows, or has up", true},
    {"PartitionTimeLimit", "it asks for more time than the partition allows (--time)", true},
    {"NodeDown", "a node that it needs is down"},
    {"ReqNodeNotAvail*", "nodes that it needs are down, drained or reserved"},
    {"Nodes required for job are DOWN*", "nodes that it needs are down, drained or reserved"},
    {"Reservation", "its reservation has not begun yet"},
    {"ReservationDeleted", "its reservation was deleted", true},
    {"Licenses", "it waits for licenses"},
    {"BadConstraints", "no node fits its constraints", true},
    {"InvalidAccount", "its account is not valid (--account)", true},
    {"InvalidQOS", "its quality of service is not valid (--qos)", true},
    {"AccountNotAllowed", "its account may not use the partition (--account)", true},
    {"AccountingPolicy", "a limit of its account is reached"},
    {"QOSNotAllowed", "its quality of service may not be used here (--qos)", true},
    {"JobArrayTaskLimit", "its array runs as many tasks at once as it may"},
    {"QOSUsageThreshold", "its quality of service needs more shares than are left"},
    {"QOSMax*", "a limit of its quality of service for one user or job is reached"},
    {"QOSGrp*", "a limit of its quality of service for all its users together is reached"},
    {"QOS*", "a limit of its quality of service is reached"},
    {"AssocMax*", "a limit of its account for one user or job is reached"},
    {"AssocGrp*", "a limit of its account for all its users together is reached"},
    {"Assoc*", "a limit of its account is reached"},
    {"MaxGRESPerAccount", "its account uses as many GPUs as it may"},
    {"MaxTRESPerAccount", "its account uses as much as it may"},
    {"BurstBuffer*", "its burst buffer gets ready"},
    {"Cleaning", "it was queued again, and its last try is still being cleaned up"},
    {"Prolog", "the site's prolog runs on its nodes"},
    {"SchedDefer", "the scheduler looks at it later"},
    {"FedJobLock", "the federation decides where it runs"},
    {"NonZeroExitCode", "its program ended with an exit code"},
    {"RaisedSignal*", "a signal ended its program"},
    {"JobLaunchFailure", "it could not be started: often because its log cannot be written on the node"},
    {"SystemFailure", "Slurm, a file system or the network failed"},
    {"TimeLimit", "it reached its time limit"},
    {"InactiveLimit", "it reached the limit for jobs that do nothing"},
    {"OutOfMemory", "it ran out of host memory"},
    {"DeadLine", "it missed its deadline", true},
});

bool fits(const ReasonRow& row, std::string_view reason) {
  if (!row.reason.ends_with('*')) return row.reason == reason;
  return reason.starts_with(row.reason.substr(0, row.reason.size() - 1));
}

const ReasonRow* find_reason(std::string_view reason) {
  const auto* const found = std::ranges::find_if(kReasons, [&](const ReasonRow& row) { return fits(row, reason); });
  return found == kReasons.end() ? nullptr : found;
}

std::string_view plain_reason(std::string_view reason) {
  reason = trim(reason);
  if (reason.starts_with('(') && reason.ends_with(')')) reason = reason.substr(1, reason.size() - 2);
  return reason;
}

/// More GPUs than a cluster has are damage.
constexpr std::int64_t kMostGpus = 10'000'000;

std::optional<GpuCount> gpus_in_entry(std::string_view entry) {
  if (entry.starts_with("gres/") || entry.starts_with("gres:")) entry.remove_prefix(5);
  if (!entry.starts_with("gpu")) return std::nullopt;
  if (entry.ends_with(')')) entry = entry.substr(0, entry.rfind('('));
  if (entry == "gpu") return GpuCount{"", 1};
  if (entry.substr(3, 1) != ":" && entry.substr(3, 1) != "=") return std::nullopt;
  const std::size_t last = entry.find_last_of(":=");
  const auto count = parse_integer(entry.substr(last + 1));
  if (!count || *count < 0 || *count > kMostGpus) return std::nullopt;
  const std::string_view type = last > 4 ? entry.substr(4, last - 4) : "";
  return GpuCount{type == "(null)" ? "" : printable(type), static_cast<int>(*count)};
}

/// A part of a time; at most six digits.
std::optional<std::int64_t> time_part(std::string_view text) {
  const auto number = text.size() <= 6 ? parse_integer(text) : std::nullopt;
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::span<const JobStateRow> job_states() { return kJobStates; }

const JobStateRow* find_job_state(std::string_view text) {
  const auto words = split_words(text);
  if (words.empty()) return nullptr;
  const auto* const found = std::ranges::find_if(
      kJobStates, [&](const JobStateRow& row) { return words[0] == row.code || words[0] == row.name; });
  return found == kJobStates.end() ? nullptr : found;
}

std::string reason_words(std::string_view reason) {
  reason = plain_reason(reason);
  if (reason.empty() || reason == "None" || reason == "(null)") return "";
  const ReasonRow* const row = find_reason(reason);
  if (row == nullptr) return printable(reason);
  // "ReqNodeNotAvail, UnavailableNodes:node[3-4]" names them.
  const std::size_t nodes = reason.find("UnavailableNodes:");
  if (nodes == std::string_view::npos || nodes + 17 >= reason.size()) return std::string(row->words);
  return fmt::format("{}: {}", row->words, printable(reason.substr(nodes + 17)));
}

bool needs_change(std::string_view reason) {
  const ReasonRow* const row = find_reason(plain_reason(reason));
  return row != nullptr && row->needs_change;
}

std::optional<std::chrono::seconds> parse_time(std::string_view text) {
  text = trim(text);
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto number = time_part(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::array<std::int64_t, 3> parts{};
  const auto pieces = split(text, ':');
  if (pieces.size() > 3) return std::nullopt;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto number = time_part(pieces[i]);
    if (!number) return std::nullopt;
    parts[i] = *number;
  }
  // Behind days, and with three parts, hours come first; else minutes.
  const bool hours_first = dash != std::string_view::npos || pieces.size() == 3;
  const std::int64_t seconds = hours_first ? parts[0] * 3600 + parts[1] * 60 + parts[2] : parts[0] * 60 + parts[1];
  return std::chrono::seconds(days * 86400 + seconds);
}

std::string format_time(std::chrono::seconds time) {
  const std::int64_t all = time.count();
  return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

std::vector<std::string_view> entries_in(std::string_view text) {
  std::vector<std::string_view> entries;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      entries.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '(' || text[i] == '[') {
      ++depth;
    } else if (text[i] == ')' || text[i] == ']') {
      --depth;
    }
  }
  return entries;
}

std::vector<GpuCount> gpus_in_gres(std::string_view text) {
  std::vector<GpuCount> gpus;
  for (const std::string_view entry : entries_in(text)) {
    auto found = gpus_in_entry(entry);
    if (!found) continue;
    const auto same = std::ranges::find(gpus, found->type, &GpuCount::type);
    if (same == gpus.end())
      gpus.push_back(std::move(*found));
    else
      same->count = static_cast<int>(std::min(kMostGpus, std::int64_t{same->count} + found->count));
  }
  return gpus;
}

int sum_of(std::span<const GpuCount> gpus) {
  std::int64_t sum = 0;
  for (const GpuCount& one : gpus) sum += one.count;
  return static_cast<int>(std::min(sum, kMostGpus));
}

}  // namespace gpuwarden::slurm
