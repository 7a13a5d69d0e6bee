// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/waste.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/summary.hpp"
#include "gpuwarden/recording/watch.hpp"
#include "gpuwarden/recording/words.hpp"

namespace gpuwarden::recording {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using telemetry::AlertLevel;
using telemetry::Statistics;

/// Below this nothing can be said about what a job does with its GPUs: it is still starting.
constexpr seconds kShortest{3};
constexpr seconds kIdleWorthTelling{60};
constexpr double kIdleShare = 0.25;
constexpr double kLowUtilization = 30;
constexpr double kTouchedShare = 0.25;
constexpr double kThrottledShare = 0.05;
/// Clocks of equal GPUs differ by a few percent; by more, one of them holds the others up.
constexpr double kSlowClock = 0.85;
constexpr std::size_t kFewestToCompare = 3;

bool was_used(const GpuSummary& gpu) { return gpu.used().value_or(false); }

std::vector<GpuIndex> indices_of(const std::vector<const GpuSummary*>& gpus) {
  std::vector<GpuIndex> indices;
  for (const GpuSummary* gpu : gpus) indices.push_back(gpu->index);
  return indices;
}

Waste finding(std::string message, std::vector<GpuIndex> gpus) {
  return {.id = {}, .level = {}, .message = std::move(message), .next_step = {}, .gpus = std::move(gpus)};
}

std::vector<Waste> unused_gpus(const Summary& summary) {
  const auto used = totals_of(summary).used;
  std::vector<const GpuSummary*> idle;
  for (const GpuSummary& gpu : summary.gpus) {
    if (gpu.watched() < kShortest) return {};
    if (!gpu.used().value_or(true)) idle.push_back(&gpu);
  }
  if (!used || idle.empty()) return {};
  const std::size_t count = summary.gpus.size();
  const char* verb = summary.held ? "held" : "recorded";
  const std::string message =
      count == 1 ? fmt::format("the GPU was {} and not used", verb)
                 : fmt::format("{} GPUs {}, {} used: {} did nothing", count, verb,
                               *used == 0 ? "none" : fmt::format("{}", *used), gpus_text(indices_of(idle)));
  return {finding(message, indices_of(idle))};
}

std::vector<Waste> idle_time(const Summary& summary) {
  milliseconds idle{};
  milliseconds watched{};
  const GpuSummary* most = nullptr;
  std::vector<const GpuSummary*> idle_gpus;
  for (const GpuSummary& gpu : summary.gpus) {
    if (!was_used(gpu) || !gpu.idle) continue;
    idle += *gpu.idle;
    watched += gpu.watched();
    if (gpu.idle_share().value_or(0) >= kIdleShare) idle_gpus.push_back(&gpu);
    if (most == nullptr || *gpu.idle > *most->idle) most = &gpu;
  }
  if (idle_gpus.empty() || *most->idle < kIdleWorthTelling) return {};
  const double share = static_cast<double>(idle.count()) / static_cast<double>(watched.count());
  std::string message = fmt::format("the GPUs in use were idle for {} of the time ({} of {} of GPU time)",
                                    share_text(share), duration_text(idle), duration_text(watched));
  if (most->longest_idle)
    message +=
        fmt::format("; GPU {} for {} at a stretch from {}", most->index.value,
                    duration_text(most->longest_idle->lasted), moment_text(most->longest_idle->from, summary.window));
  return {finding(message, indices_of(idle_gpus))};
}

std::vector<Waste> low_utilization(const Summary& summary) {
  std::vector<const GpuSummary*> low;
  double highest = 0;
  for (const GpuSummary& gpu : summary.gpus) {
    const Statistics* utilization = gpu.figure("utilization");
    if (!was_used(gpu) || gpu.watched() < kIdleWorthTelling || utilization->mean >= kLowUtilization) continue;
    // Where it was idle for long, that is what is told.
    if (gpu.idle_share().value_or(0) >= kIdleShare) continue;
    low.push_back(&gpu);
    highest = std::max(highest, utilization->mean);
  }
  if (low.empty()) return {};
  return {finding(fmt::format("{} worked at most {:.0f} % of the time, never long without work",
                              gpus_text(indices_of(low)), highest),
                  indices_of(low))};
}

std::vector<Waste> untouched_memory(const Summary& summary) {
  std::vector<const GpuSummary*> roomy;
  Bytes highest;
  for (const GpuSummary& gpu : summary.gpus) {
    const auto share = gpu.peak_memory_share();
    if (!was_used(gpu) || gpu.watched() < kShortest || !share || *share >= kTouchedShare) continue;
    roomy.push_back(&gpu);
    highest = std::max(highest, Bytes(static_cast<std::uint64_t>(gpu.figure("memory_used")->max)));
  }
  if (roomy.empty()) return {};
  return {finding(fmt::format("{} used at most {} of {} of memory", gpus_text(indices_of(roomy)), format_size(highest),
                              format_size(*roomy.front()->memory_total)),
                  indices_of(roomy))};
}

/// What slows GPUs down, and what to do about it.
struct ThrottleCause {
  facts::ThrottleReason reason;
  AlertLevel level;
  const char* words;
  const char* next_step;
};
constexpr auto kThrottleCauses = std::to_array<ThrottleCause>({
    {facts::ThrottleReason::hw_thermal_slowdown, AlertLevel::error, "by the hardware for heat",
     "check fans, airflow and dust: gpuwarden doctor tells the temperatures it slows down at"},
    {facts::ThrottleReason::sw_thermal_slowdown, AlertLevel::warning, "by the driver for heat",
     "check fans, airflow and what else warms the machine"},
    {facts::ThrottleReason::hw_power_brake, AlertLevel::error, "by the power supply's brake signal",
     "check power supplies and the rack's power budget"},
    {facts::ThrottleReason::hw_slowdown, AlertLevel::error, "by the hardware (heat or power)",
     "check cooling and power supplies: gpuwarden doctor"},
    {facts::ThrottleReason::sw_power_cap, AlertLevel::info, "by the power limit",
     "normal at full load; nvidia-smi -pl sets another limit where the machine has power and cooling for it"},
});

/// "Heat or power" says nothing where one of them is named for as long.
bool is_named_by_another(const ThrottleShare& share, const GpuSummary& gpu) {
  using facts::ThrottleReason;
  return share.reason == ThrottleReason::hw_slowdown && std::ranges::any_of(gpu.throttling, [&](const auto& other) {
           const bool names =
               other.reason == ThrottleReason::hw_thermal_slowdown || other.reason == ThrottleReason::hw_power_brake;
           return names && other.time >= share.time;
         });
}

std::vector<Waste> throttled(const Summary& summary) {
  std::vector<Waste> found;
  for (const ThrottleCause& cause : kThrottleCauses) {
    std::vector<GpuIndex> gpus;
    double most = 0;
    for (const GpuSummary& gpu : summary.gpus) {
      const auto share = std::ranges::find(gpu.throttling, cause.reason, &ThrottleShare::reason);
      if (share == gpu.throttling.end() || share->share < kThrottledShare || share->time < kShortest) continue;
      if (is_named_by_another(*share, gpu)) continue;
      gpus.push_back(gpu.index);
      most = std::max(most, share->share);
    }
    if (gpus.empty()) continue;
    found.push_back({.id = {},
                     .level = cause.level,
                     .message = fmt::format("{} {} slowed down {} for {}{} of the time", gpus_text(gpus),
                                            gpus.size() == 1 ? "was" : "were", cause.words,
                                            gpus.size() == 1 ? "" : "up to ", share_text(most)),
                     .next_step = cause.next_step,
                     .gpus = gpus});
  }
  return found;
}

std::vector<Waste> slow_gpu(const Summary& summary) {
  std::vector<std::pair<double, const GpuSummary*>> clocks;
  for (const GpuSummary& gpu : summary.gpus) {
    const Statistics* clock = gpu.figure("clock_sm");
    if (was_used(gpu) && clock != nullptr && gpu.watched() >= kIdleWorthTelling && gpu.name == summary.gpus[0].name)
      clocks.emplace_back(clock->mean, &gpu);
  }
  if (clocks.size() < kFewestToCompare) return {};
  std::ranges::sort(clocks, {}, [](const auto& entry) { return entry.first; });
  const double median = clocks[clocks.size() / 2].first;
  std::vector<Waste> found;
  for (const auto& [clock, gpu] : clocks) {
    if (clock >= median * kSlowClock) continue;
    found.push_back(finding(fmt::format("GPU {} ran at {:.0f} MHz on average, the others at {:.0f} MHz: it holds them "
                                        "up where they wait for each other",
                                        gpu->index.value, clock, median),
                            {gpu->index}));
  }
  return found;
}

std::vector<Waste> lost_gpu(const Summary& summary) {
  std::vector<Waste> found;
  for (const GpuSummary& gpu : summary.gpus) {
    if (!gpu.lost) continue;
    const bool lost = gpu.lost->kind == kLostKind;
    const std::string moment = moment_text(gpu.lost->time, summary.window);
    const char* what = lost ? "was lost" : "could not be used";
    // A job gets no GPU that is out of use already.
    const bool was_so = summary.run_id.empty() && (gpu.readings == 0 || gpu.lost->time <= summary.window.from);
    std::string when = ", since before the recording";
    if (!was_so) when = lost ? " at " + moment : fmt::format(" from {} on", moment);
    found.push_back(
        finding(fmt::format("GPU {} {}{}: {}", gpu.index.value, what, when, printable(gpu.lost->text)), {gpu.index}));
  }
  return found;
}

constexpr auto kChecks = std::to_array<WasteCheck>({
    {"gpu_lost", "a GPU that was lost and did not come back", AlertLevel::critical,
     "see what it needs with gpuwarden doctor; gpuwarden disable keeps work away from it until then", lost_gpu},
    {"unused_gpus", "GPUs that did no work at all", AlertLevel::warning,
     "ask for fewer GPUs, or see that every rank uses its own (LOCAL_RANK)", unused_gpus},
    {"idle_time", "time without work on GPUs that are used", AlertLevel::warning,
     "see what the job waits for then: data loading, checkpoints, evaluation on the CPU", idle_time},
    {"low_utilization", "GPUs that work little all the time", AlertLevel::warning,
     "a larger batch, more data-loading workers, or fewer GPUs", low_utilization},
    {"throttled", "GPUs whose clocks were held back", AlertLevel::warning, "see what gpuwarden doctor says", throttled},
    {"slow_gpu", "a GPU slower than its equals", AlertLevel::warning,
     "compare its temperature and power limit with the others': gpuwarden doctor", slow_gpu},
    {"untouched_memory", "memory that was never used", AlertLevel::info,
     "a larger batch, a smaller GPU or a MIG instance would do", untouched_memory},
});

}  // namespace

std::span<const WasteCheck> waste_checks() { return kChecks; }

std::vector<Waste> judge_waste(const Summary& summary) {
  std::vector<Waste> all;
  for (const WasteCheck& check : kChecks) {
    for (Waste& found : check.test(summary)) {
      found.id = check.id;
      // A finding with a next step of its own has a level of its own, too.
      if (found.next_step.empty()) {
        found.level = check.level;
        found.next_step = check.next_step;
      }
      all.push_back(std::move(found));
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &Waste::level);
  return all;
}

}  // namespace gpuwarden::recording
