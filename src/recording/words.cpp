// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/watch.hpp"

namespace gpuwarden::recording {
namespace {

std::string at_most_one_decimal(double value) {
  if (std::isnan(value)) return "-";
  return std::abs(value) < 10 && value != std::round(value) ? fmt::format("{:.1f}", value)
                                                            : fmt::format("{:.0f}", value);
}

/// GPUs that were seen with fewer readings than the others, or with holes between them.
std::string gap_text(const Summary& summary) {
  std::vector<GpuIndex> gpus;
  std::chrono::milliseconds longest{};
  for (const GpuSummary& gpu : summary.gpus) {
    if (gpu.gaps == 0) continue;
    gpus.push_back(gpu.index);
    longest = std::max(longest, gpu.gap_time);
  }
  if (gpus.empty()) return {};
  return fmt::format("readings of {} are missing for up to {}: that time counts for nothing", gpus_text(gpus),
                     duration_text(longest));
}

}  // namespace

std::string quantity_text(double value, std::string_view unit) {
  if (std::isnan(value)) return "-";
  if (unit == "B") return format_size(Bytes(static_cast<std::uint64_t>(std::clamp(value, 0.0, 9e18))));
  return fmt::format("{}{}{}", at_most_one_decimal(value), unit.empty() ? "" : " ", unit);
}

std::string quantity_text(const std::optional<double>& value, std::string_view unit) {
  return value ? quantity_text(*value, unit) : "-";
}

std::string duration_text(std::chrono::milliseconds duration) {
  std::string text = format_duration(duration);
  // "3 h 0 min"
  const std::size_t second = text.find(" 0 ");
  if (second != std::string::npos && second > 0) text.erase(second);
  return text;
}

std::string window_text(const Summary& summary) {
  if (!summary.has_readings()) return "no reading";
  return fmt::format("{} to {} ({})", format_utc(summary.window.from), format_utc(summary.window.to),
                     duration_text(summary.duration()));
}

std::string level_text(telemetry::AlertLevel level) { return to_lower(telemetry::to_string(level)); }

std::string energy_text(double joules, bool estimated) {
  constexpr double kJoulesPerWattHour = 3600;
  constexpr double kKilo = 1000;
  const double watt_hours = joules / kJoulesPerWattHour;
  const std::string text = joules < 10 * kKilo       ? fmt::format("{:.0f} J", joules)
                           : watt_hours < 10 * kKilo ? fmt::format("{:.{}f} Wh", watt_hours, watt_hours < 100 ? 2 : 0)
                                                     : fmt::format("{:.1f} kWh", watt_hours / kKilo);
  return estimated ? "~" + text : text;
}

std::string energy_text(const std::optional<telemetry::Energy>& energy) {
  return energy ? energy_text(energy->joules, !energy->from_counter) : "-";
}

std::string total_energy_text(const Totals& totals, std::size_t gpus) {
  if (!totals.joules) return "-";
  const std::string text = energy_text(*totals.joules, totals.joules_are_estimate);
  const std::size_t told = gpus - std::min(gpus, totals.without_energy);
  return told == gpus ? text : fmt::format("{} (of {} GPU{})", text, told, told == 1 ? "" : "s");
}

std::string share_text(const std::optional<double>& share) {
  if (!share) return "-";
  const double percent = *share * 100;
  return percent > 0 && percent < 1 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string gpus_text(std::span<const GpuIndex> gpus) {
  if (gpus.empty()) return "no GPU";
  std::vector<std::uint32_t> numbers;
  for (const GpuIndex gpu : gpus) numbers.push_back(gpu.value);
  std::ranges::sort(numbers);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    // "0-1" is no shorter than "0 and 1".
    if (last == i + 1) last = i;
    parts.push_back(last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  std::string text = numbers.size() == 1 ? "GPU " : "GPUs ";
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string moment_text(telemetry::WallTime time, const telemetry::Window& window) {
  std::string utc = format_utc(time);  // 2026-11-20T14:03:07Z
  const bool one_day =
      std::chrono::floor<std::chrono::days>(window.from) == std::chrono::floor<std::chrono::days>(window.to);
  if (utc.size() < 20) return utc;
  const std::string clock = utc.substr(11, 8) + " UTC";
  return one_day ? clock : utc.substr(0, 10) + " " + clock;
}

std::string throttling_text(const GpuSummary& gpu) {
  if (gpu.throttling.empty()) return gpu.throttled_share ? "none" : "-";
  std::string text;
  for (const ThrottleShare& one : gpu.throttling)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", spaced(to_string(one.reason)), share_text(one.share));
  return text;
}

std::string happening_text(const telemetry::Happening& happening, const Summary& summary) {
  const auto gpu = std::ranges::find(summary.gpus, happening.gpu, &GpuSummary::uuid);
  const std::string who = happening.gpu.value.empty() ? ""
                          : gpu == summary.gpus.end() ? printable(happening.gpu.value) + " "
                                                      : fmt::format("GPU {} ", gpu->index.value);
  return fmt::format("{}{}: {}", who, printable(happening.kind), printable(happening.text));
}

std::vector<std::string> figure_cells(const GpuSummary& gpu) {
  return {mean_max_min(gpu.figure("utilization"), "%"),
          mean_max_min(gpu.figure("memory_used"), "B"),
          mean_max_min(gpu.figure("temperature"), "°C"),
          mean_max_min(gpu.figure("power"), "W"),
          energy_text(gpu.energy),
          share_text(gpu.idle_share()),
          throttling_text(gpu)};
}

std::string held_text(const telemetry::Use& use) {
  return duration_text(std::chrono::milliseconds(static_cast<std::int64_t>(use.gpu_seconds * 1000)));
}

std::string command_text(const Summary& summary) {
  std::string text;
  for (const std::string& word : summary.info.command) text += (text.empty() ? "" : " ") + shell_word(printable(word));
  return text;
}

std::string host_text(const Summary& summary) {
  std::string host = printable(summary.info.host.empty() ? "unknown host" : summary.info.host);
  if (!summary.info.simulated) return host;
  return summary.info.fleet.empty() ? host + " (simulated)" : printable(summary.info.fleet) + " (simulated)";
}

std::string mean_max_min(const telemetry::Statistics* figure, std::string_view unit) {
  if (figure == nullptr) return "-";
  if (unit == "B")
    return fmt::format("{} / {} / {}", quantity_text(figure->mean, unit), quantity_text(figure->max, unit),
                       quantity_text(figure->min, unit));
  return fmt::format("{} / {} / {} {}", at_most_one_decimal(figure->mean), at_most_one_decimal(figure->max),
                     at_most_one_decimal(figure->min), unit);
}

std::vector<std::string> caveats_of(const Summary& summary) {
  std::vector<std::string> caveats;
  if (summary.info.simulated) caveats.emplace_back("the figures are a simulated fleet's");
  if (!summary.info.finished)
    caveats.push_back(
        fmt::format("the recording was not ended in order (it goes on, or what made it was killed): "
                    "what is told here ends at {}",
                    summary.has_readings() ? format_utc(summary.window.to) : "its beginning"));
  if (auto gaps = gap_text(summary); !gaps.empty()) caveats.push_back(std::move(gaps));
  return caveats;
}

}  // namespace gpuwarden::recording
