// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/reports.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::slurm {
namespace {

using nlohmann::json;

/// The part of this name, where it is there; null elsewhere.
const json& part(const json& document, const char* name) {
  static const json nothing;
  if (!document.is_object()) return nothing;
  const auto found = document.find(name);
  return found == document.end() ? nothing : *found;
}

/// The list of this name; an empty one where it is none.
const json& list(const json& document, const char* name) {
  static const json nothing = json::array();
  const json& found = part(document, name);
  return found.is_array() ? found : nothing;
}

std::string text_of(const json& value) {
  return value.is_string() ? printable(value.get_ref<const std::string&>()) : "";
}

template <class T>
std::optional<T> number_of(const json& value) {
  if (!value.is_number()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    return value.get<T>();
  } else {
    // Any number may stand there: 1e99 is none of these.
    if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>()))
      return static_cast<T>(value.get<std::uint64_t>());
    if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<std::int64_t>()))
      return static_cast<T>(value.get<std::int64_t>());
    return std::nullopt;
  }
}

GpuLine gpu_of(const json& gpu) {
  return {.index = number_of<int>(part(gpu, "index")).value_or(-1),
          .name = text_of(part(gpu, "name")),
          .trouble = text_of(part(gpu, "trouble")),
          .mean_utilization = number_of<double>(part(gpu, "mean_utilization_percent")),
          .peak_memory_bytes = number_of<std::uint64_t>(part(gpu, "peak_memory_bytes")),
          .energy_joules = number_of<double>(part(gpu, "energy_joules"))};
}

/// The GPU of this UUID (an instance's is not among them), in words.
std::string fault_of(const json& document, const json& uuid, const std::string& why) {
  for (const json& gpu : list(document, "gpus")) {
    if (part(gpu, "uuid") != uuid) continue;
    const std::string trouble = text_of(part(gpu, "trouble"));
    return fmt::format("GPU {}: {}", number_of<int>(part(gpu, "index")).value_or(-1), trouble.empty() ? why : trouble);
  }
  return fmt::format("{}: {}", text_of(uuid), why);
}

void read_attempts(const json& document, NodeReport& report) {
  const json& attempts = list(document, "attempts");
  if (attempts.empty()) return;
  report.restart = text_of(part(attempts.back(), "restart"));
  report.why = text_of(part(attempts.back(), "why"));
  for (const json& attempt : attempts) {
    for (const json& uuid : list(attempt, "gpus_at_fault"))
      report.faults.push_back(fault_of(document, uuid, text_of(part(attempt, "why"))));
  }
}

/// Where no GPUs could be had: why, and which are in trouble.
void read_refusal(const json& document, NodeReport& report) {
  const json& error = part(document, "error");
  if (!error.is_object()) return;
  report.why = text_of(part(error, "message"));
  for (const json& gpu : list(document, "gpus_in_trouble"))
    report.faults.push_back(
        fmt::format("GPU {}: {}", number_of<int>(part(gpu, "index")).value_or(-1), text_of(part(gpu, "cause"))));
  report.restart = report.faults.empty() ? "never" : "other_gpus";
}

constexpr std::size_t kMostStatus = std::size_t{1} << 20U;

/// That the clocks of a file server and ours may be apart.
constexpr std::chrono::minutes kClockSkew{5};

/// Nodes write every 5 s what their GPUs do (launch::kStatusPeriod): what misses a few turns is not just now any more.
constexpr std::chrono::seconds kOldestStatus{20};

/// "2026-11-20T14:03:07Z".
std::optional<Clock::WallTime> time_of(const json& value) {
  std::tm parts{};
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

bool is_newer(const std::filesystem::path& file, Clock::WallTime when) {
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) return false;
  const auto written = std::chrono::seconds(found.st_mtim.tv_sec) + std::chrono::nanoseconds(found.st_mtim.tv_nsec);
  return written >= when.time_since_epoch();
}

/// A report of before reports told so: by its exit code.
bool was_ended(const NodeReport& report) {
  return report.interrupted.value_or(report.exit_code == 143 || report.exit_code == 130);
}

bool has_failed(const NodeReport& report) { return report.exit_code.value_or(0) != 0 && !was_ended(report); }

/// Not of SIGTERM or SIGINT, which Slurm, a launcher or a user sends; SIGKILL is the memory killer's, too.
bool has_failed_by_itself(const NodeReport& report) {
  return has_failed(report) && report.exit_code != 143 && report.exit_code != 130;
}

Verdict judge_failure(const Job& job, const std::vector<NodeReport>& reports) {
  Verdict verdict;
  for (const NodeReport& report : reports) {
    if (!report.faults.empty()) verdict.faults.push_back({report.node, join(report.faults, "; "), report.simulated});
  }
  if (!verdict.faults.empty()) {
    verdict.again = true;
    verdict.why = fmt::format("{}: {}", verdict.faults[0].node, verdict.faults[0].reason);
    return verdict;
  }
  if (reports.empty()) {
    verdict.why =
        "no node wrote a report: " + (job.reason.empty() ? std::string("see the job's log") : reason_words(job.reason));
    return verdict;
  }
  const NodeReport* const guilty = guilty_of(reports);
  if (guilty == nullptr) {
    verdict.why = "no node's report tells why";
    return verdict;
  }
  verdict.again = guilty->restart == "again" || guilty->restart == "other_gpus";
  verdict.why = fmt::format("{}: {}", guilty->node,
                            guilty->why.empty() ? fmt::format("exit code {}", *guilty->exit_code) : guilty->why);
  return verdict;
}

}  // namespace

const NodeReport* guilty_of(const std::vector<NodeReport>& reports) {
  // Those that were ended because another one failed say nothing about why. Slurm signals ranks and launcher at once: a
  // rank's end may be seen before the launcher's own signal, so that its report does not tell of one.
  auto found = std::ranges::find_if(reports, has_failed_by_itself);
  if (found == reports.end()) found = std::ranges::find_if(reports, has_failed);
  return found == reports.end() ? nullptr : &*found;
}

NodeReport read_report(std::string node, std::string_view text) {
  NodeReport report{.node = std::move(node)};
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return report;
  report.readable = true;
  report.simulated = part(document, "simulated") == true;
  report.exit_code = number_of<int>(part(document, "exit_code"));
  if (document.contains("interrupted_by")) report.interrupted = !part(document, "interrupted_by").is_null();
  report.ranks = list(document, "ranks").size();
  for (const json& gpu : list(document, "gpus")) report.gpus.push_back(gpu_of(gpu));
  read_attempts(document, report);
  read_refusal(document, report);
  report.document = text;
  return report;
}

std::vector<NodeReport> read_reports(const std::filesystem::path& folder, const std::string& nodes,
                                     std::optional<Clock::WallTime> since) {
  std::vector<NodeReport> reports;
  for (const std::filesystem::path& file : list_directory(folder)) {
    if (file.extension() != ".json" || !names_node(nodes, file.stem().string())) continue;
    if (since && !is_newer(file, *since - kClockSkew)) continue;
    const auto text = read_file(file);
    reports.push_back(read_report(file.stem().string(), text ? *text : ""));
  }
  return reports;
}

NodeStatus read_status(std::string node, std::string_view text) {
  NodeStatus status{.node = std::move(node)};
  const json document = json::parse(text, nullptr, false);
  status.simulated = part(document, "simulated") == true;
  status.time = time_of(part(document, "time"));
  const auto add = [](auto& sum, const auto& one) {
    if (one) sum = sum.value_or(0) + *one;
  };
  for (const json& gpu : list(document, "gpus")) {
    ++status.gpus;
    status.in_trouble += part(gpu, "usable") == false ? 1 : 0;
    if (const auto load = number_of<double>(part(gpu, "utilization_percent"))) status.utilization.push_back(*load);
    add(status.memory_used_bytes, number_of<std::uint64_t>(part(gpu, "memory_used_bytes")));
    add(status.memory_total_bytes, number_of<std::uint64_t>(part(gpu, "memory_total_bytes")));
    add(status.power_watts, number_of<double>(part(gpu, "power_watts")));
    const auto heat = number_of<double>(part(gpu, "temperature_celsius"));
    if (heat) status.hottest_celsius = std::max(status.hottest_celsius.value_or(*heat), *heat);
  }
  return status;
}

std::vector<NodeStatus> read_statuses(const std::filesystem::path& folder, const std::string& nodes,
                                      Clock::WallTime now) {
  std::vector<NodeStatus> statuses;
  for (const std::filesystem::path& file : list_directory(folder)) {
    if (file.extension() != ".status" || !names_node(nodes, file.stem().string())) continue;
    const auto text = read_file(file, kMostStatus);
    NodeStatus status = read_status(file.stem().string(), text ? *text : "");
    const bool current = status.time && *status.time + kOldestStatus + kClockSkew >= now;
    if (status.gpus > 0 && current) statuses.push_back(std::move(status));
  }
  return statuses;
}

Verdict judge(const Job& job, const std::vector<NodeReport>& reports, bool saves) {
  if (job.state == "COMPLETED") return {.why = "it has ended well"};
  if (job.state == "FAILED") return judge_failure(job, reports);
  const JobStateRow* const row = find_job_state(job.state);
  const std::string words = fmt::format("it {}", row != nullptr ? row->words : "ended as " + job.state);
  const bool site =
      job.state == "NODE_FAIL" || job.state == "BOOT_FAIL" || job.state == "PREEMPTED" || job.state == "LAUNCH_FAILED";
  if (job.state == "TIMEOUT" && !saves)
    return {.why = words + ", and was not told before: --signal USR1@60 lets it save and go on"};
  return {.again = site || job.state == "TIMEOUT", .why = words};
}

}  // namespace gpuwarden::slurm
