// SPDX-License-Identifier: Apache-2.0
#include "render/slurm_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"

namespace gpuwarden::cli {
namespace {

using slurm::GpuCount;
using slurm::Job;
using slurm::Node;
using slurm::NodeReport;

std::string type_name(const std::string& type) { return type.empty() ? "GPU" : type; }

std::string counts_text(const std::vector<GpuCount>& gpus) {
  std::string text;
  for (const GpuCount& one : gpus)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", one.count, type_name(one.type),
                        one.type.empty() && one.count != 1 ? "s" : "");
  return text.empty() ? "-" : text;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

/// "2026-11-27 18:17:25", as Slurm tells local times.
std::string time_text(std::string text) {
  std::ranges::replace(text, 'T', ' ');
  return text;
}

std::string gpus_of(const Job& job) {
  const auto gpus = slurm::gpus_in_gres(job.gpus);
  return gpus.empty() ? "-" : fmt::format("{} x {}", job.node_count.value_or(1), counts_text(gpus));
}

std::string state_words(const Job& job) {
  const auto* const row = slurm::find_job_state(job.state);
  return row != nullptr ? std::string(row->words) : fmt::format("is in state {}", job.state);
}

/// What would have to be free at once, and what is.
std::string room_text(const Job& job, const slurm::Site& site) {
  const auto able = slurm::nodes_with_room(job, site);
  if (!able) return "";
  const int wanted = job.node_count.value_or(1);
  return fmt::format("  it asks for {} node{} with {} free each; partition {} has {} such node{} now\n", wanted,
                     wanted == 1 ? "" : "s", counts_text(slurm::gpus_in_gres(job.gpus)), job.partition, *able,
                     *able == 1 ? "" : "s");
}

template <class T>
std::string figure(const std::optional<T>& value, std::string (*show)(T)) {
  return value ? show(*value) : "-";
}

std::string percent(double value) { return fmt::format("{:.0f}%", value); }
std::string size(std::uint64_t value) { return format_size(Bytes(value)); }
std::string energy(double joules) { return fmt::format("{:.1f} kJ", joules / 1000); }

void add_report(const NodeReport& report, std::vector<std::vector<std::string>>& rows) {
  const std::string code = report.exit_code ? fmt::to_string(*report.exit_code) : "-";
  const std::string node = (report.simulated ? "[simulated] " : "") + report.node;
  if (report.gpus.empty())
    rows.push_back({node, fmt::to_string(report.ranks), code, "-", "-", "-", "-",
                    report.readable ? report.why : "its report cannot be read"});
  for (const auto& gpu : report.gpus)
    rows.push_back({node, fmt::to_string(report.ranks), code, fmt::format("{} {}", gpu.index, gpu.name),
                    figure(gpu.mean_utilization, percent), figure(gpu.peak_memory_bytes, size),
                    figure(gpu.energy_joules, energy), gpu.trouble});
}

}  // namespace

std::string nodes_text(const slurm::Site& site, const std::string& partition, const Style& style) {
  std::string text = fmt::format("{}  Slurm {}{}\n", or_dash(site.cluster), or_dash(site.version),
                                 partition.empty() ? "" : "  partition " + printable(partition));
  for (const auto& type : slurm::summarise(site, partition))
    text += fmt::format("  {}: {} of {} free, at most {} on one node\n", type_name(type.type), type.free, type.total,
                        type.most_on_a_node);
  std::vector<std::vector<std::string>> rows{{"node", "state", "free", "of", "CPUs free", "partitions", "reason"}};
  for (const Node& node : site.nodes) {
    if (!partition.empty() && std::ranges::find(node.partitions, partition) == node.partitions.end()) continue;
    const std::string cpus = node.cpus && node.cpus_used && slurm::takes_jobs(node)
                                 ? fmt::format("{} of {}", *node.cpus - *node.cpus_used, *node.cpus)
                                 : "-";
    rows.push_back({node.name, to_lower(node.state), counts_text(slurm::free_gpus(node)), counts_text(node.gpus), cpus,
                    join(node.partitions, ","), node.reason});
  }
  return text + columns(rows, style);
}

std::string queue_text(const std::vector<Job>& jobs, const Style& style) {
  if (jobs.empty()) return "no jobs\n";
  std::vector<std::vector<std::string>> rows{
      {"job", "name", "user", "partition", "GPUs", "state", "time", "where / why"}};
  for (const Job& job : jobs) {
    const bool waits = job.state == "PENDING";
    rows.push_back({job.id, job.name, job.user, job.partition, gpus_of(job), to_lower(job.state),
                    waits ? "-" : job.run_time, waits ? or_dash(slurm::reason_words(job.reason)) : job.nodes});
  }
  return columns(rows, style, 0);
}

std::string why_text(const Job& job, const slurm::Site& site) {
  std::string text = fmt::format("job {} ({}) {}", job.id, printable(job.name), state_words(job));
  if (!job.nodes.empty()) text += " on " + job.nodes;
  text += '\n';
  const std::string words = slurm::reason_words(job.reason);
  if (!words.empty()) text += fmt::format("  {} ({})\n", words, job.reason);
  const bool waits = job.state == "PENDING";
  if (!job.submitted.empty()) text += fmt::format("  submitted {}\n", time_text(job.submitted));
  if (waits && (job.reason == "Resources" || job.reason == "Priority")) text += room_text(job, site);
  if (waits)
    text += job.started.empty() ? "  Slurm does not say when it will start\n"
                                : fmt::format("  expected to start {}\n", time_text(job.started));
  else if (!job.run_time.empty())
    text += fmt::format("  ran {} of {}\n", job.run_time, or_dash(job.time_limit));
  if (slurm::is_over(job)) text += fmt::format("  exit code {}\n", slurm::exit_code_of(job));
  if (waits && slurm::needs_change(job.reason))
    text += "  -> this does not pass by itself: change the job, or ask the cluster's administrators\n";
  if (!job.log.empty() && !waits) text += fmt::format("  log: {}\n", job.log);
  return text;
}

std::string job_line(const Job& job) {
  const std::string words = slurm::reason_words(job.reason);
  std::string text = fmt::format("job {} {}", job.id, state_words(job));
  if (job.state == "PENDING") return text + (words.empty() ? "" : ": " + words);
  if (!job.nodes.empty()) text += " on " + job.nodes;
  if (job.state == "RUNNING") return text + ", time limit " + or_dash(job.time_limit);
  if (slurm::is_over(job) && job.state != "COMPLETED")
    return text +
           fmt::format(" after {}{}", or_dash(job.run_time), job.reason == "JobLaunchFailure" ? ": " + words : "");
  return text;
}

std::string job_progress(const Job& job) {
  if (job.state == "PENDING") return job_line(job);
  return fmt::format("job {} {} for {} of {} on {}", job.id, state_words(job), or_dash(job.run_time),
                     or_dash(job.time_limit), or_dash(job.nodes));
}

std::string statuses_text(const std::vector<slurm::NodeStatus>& statuses) {
  std::string text;
  for (const slurm::NodeStatus& one : statuses) {
    text += fmt::format("  {}{}: {} GPU{}", one.simulated ? "[simulated figures] " : "", printable(one.node), one.gpus,
                        one.gpus == 1 ? "" : "s");
    if (!one.utilization.empty()) {
      const auto [least, most] = std::ranges::minmax(one.utilization);
      const double sum = std::accumulate(one.utilization.begin(), one.utilization.end(), 0.0);
      text += fmt::format(", {:.0f} % busy", sum / static_cast<double>(one.utilization.size()));
      if (least != most) text += fmt::format(" ({:.0f} to {:.0f})", least, most);
    }
    if (one.memory_used_bytes && one.memory_total_bytes)
      text += fmt::format(", {} of {}", format_size(Bytes(*one.memory_used_bytes)),
                          format_size(Bytes(*one.memory_total_bytes)));
    if (one.hottest_celsius) text += fmt::format(", {:.0f} C at most", *one.hottest_celsius);
    if (one.power_watts) text += fmt::format(", {:.0f} W", *one.power_watts);
    if (one.in_trouble > 0) text += fmt::format(", {} in trouble", one.in_trouble);
    text += '\n';
  }
  return text;
}

std::string reports_text(const std::vector<NodeReport>& reports, const Style& style) {
  if (reports.empty()) return "";
  std::vector<std::vector<std::string>> rows{
      {"node", "ranks", "exit code", "GPU", "mean util", "peak memory", "energy", ""}};
  for (const NodeReport& report : reports) add_report(report, rows);
  return columns(rows, style);
}

std::string slurm_attempt_text(const slurm::Attempt& attempt) {
  std::string text = fmt::format("gpuwarden: job {}: {}\n", attempt.job.id, attempt.verdict.why);
  for (const auto& fault : attempt.drained)
    text += fmt::format("gpuwarden: node {} is drained ({})\n", fault.node, fault.reason);
  for (const auto& fault : attempt.not_drained)
    text += fmt::format("gpuwarden: node {} should be drained; an administrator can: {}\n", fault.node,
                        slurm::drain_command(fault));
  if (attempt.again)
    text += fmt::format("gpuwarden: submitting it again{}\n",
                        attempt.verdict.faults.empty() ? "" : ", without " + attempt.verdict.faults[0].node);
  return text;
}

}  // namespace gpuwarden::cli
