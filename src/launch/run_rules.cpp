// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/run_rules.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::launch {
namespace {

using knowledge::RuleHit;
using knowledge::Situation;

constexpr double kAll = 100;

std::optional<int> used_gpus(const std::vector<GpuReport>& gpus) {
  constexpr double kWorked = 0.5;
  int used = 0;
  for (const GpuReport& gpu : gpus) {
    if (!gpu.mean_utilization) return std::nullopt;
    used += *gpu.mean_utilization >= kWorked ? 1 : 0;
  }
  return used;
}

Situation situation_of(const GpuReport& gpu, const RunSurroundings& surroundings) {
  Situation situation{.gpu = gpu.name,
                      .workload = surroundings.workload,
                      .driver = surroundings.driver,
                      .utilization_percent = gpu.mean_utilization,
                      .cpu_percent = surroundings.cpu_percent};
  if (const auto* model = knowledge::find_gpu_model(gpu.name)) {
    situation.architecture = model->architecture;
    situation.capability = model->capability_major * 10 + model->capability_minor;
  }
  if (gpu.peak_memory && gpu.memory_total && gpu.memory_total->value > 0)
    situation.memory_percent = ratio(*gpu.peak_memory, *gpu.memory_total) * kAll;
  return situation;
}

struct CpuTime {
  double busy = 0;
  double total = 0;
};

/// The first line of /proc/stat: user, nice, system, idle, iowait, irq ... in ticks.
std::optional<CpuTime> cpu_time(std::string_view stat) {
  const auto words = split_words(stat.substr(0, stat.find('\n')));
  constexpr std::size_t kIdle = 4;
  constexpr std::size_t kWaiting = 5;
  // What guests take is within user and nice.
  constexpr std::size_t kGuests = 9;
  if (words.size() <= kWaiting || words[0] != "cpu") return std::nullopt;
  CpuTime time;
  for (std::size_t i = 1; i < std::min(words.size(), kGuests); ++i) {
    const auto ticks = parse_integer(words[i]);
    if (!ticks) return std::nullopt;
    time.total += static_cast<double>(*ticks);
    if (i != kIdle && i != kWaiting) time.busy += static_cast<double>(*ticks);
  }
  return time;
}

}  // namespace

std::vector<SiteFinding> judge_run(const RunReport& report, std::span<const knowledge::SiteRule> rules,
                                   const RunSurroundings& surroundings) {
  const auto used = used_gpus(report.gpus);
  std::vector<SiteFinding> findings;
  for (const GpuReport& gpu : report.gpus) {
    Situation situation = situation_of(gpu, surroundings);
    situation.gpus_requested = static_cast<int>(report.gpus.size());
    situation.gpus_used = used;
    for (const RuleHit& hit : knowledge::judge(rules, situation)) {
      SiteFinding finding{.id = "site:" + printable(hit.rule->id),
                          .severity = std::string(hit.severity),
                          .message = printable(hit.message),
                          .fix = printable(hit.fix)};
      if (std::ranges::find(findings, finding) == findings.end()) findings.push_back(std::move(finding));
    }
  }
  return findings;
}

std::optional<double> busy_percent(std::string_view before, std::string_view after) {
  const auto first = cpu_time(before);
  const auto last = cpu_time(after);
  if (!first || !last || last->total <= first->total) return std::nullopt;
  return std::clamp((last->busy - first->busy) / (last->total - first->total) * kAll, 0.0, kAll);
}

}  // namespace gpuwarden::launch
