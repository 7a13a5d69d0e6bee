// SPDX-License-Identifier: Apache-2.0
// Figures as people read them; the same in the terminal, in Markdown and in HTML.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/recording/summary.hpp"

namespace gpuwarden::recording {

/// "2026-11-20T14:03:07Z to 2026-11-20T14:08:07Z (5 min)"; "no reading" where there is none.
std::string window_text(const Summary& summary);

/// "54 %", "61.2 GiB", "412 W", "71 °C", "1980 MHz"; "-" for NaN.
std::string quantity_text(double value, std::string_view unit);
/// "-" where it is not known.
std::string quantity_text(const std::optional<double>& value, std::string_view unit);
/// "3 h", "3 h 12 min", "42 s": the two largest units that are not 0.
std::string duration_text(std::chrono::milliseconds duration);
/// "critical", "error", "warning", "info".
std::string level_text(telemetry::AlertLevel level);
/// "850 J", "2.41 Wh", "12.3 kWh"; with "~" before it where it is estimated.
std::string energy_text(double joules, bool estimated = false);
std::string energy_text(const std::optional<telemetry::Energy>& energy);
/// Of all GPUs: "850 J"; "850 J (of 7 GPUs)" where others do not tell theirs; "-".
std::string total_energy_text(const Totals& totals, std::size_t gpus);
/// Of a share from 0 to 1: "12 %", "0.4 %"; "-" where it is not known.
std::string share_text(const std::optional<double>& share);
/// "GPU 3", "GPUs 0-3 and 5"; "no GPU".
std::string gpus_text(std::span<const GpuIndex> gpus);
/// "14:03:22 UTC", with the day before it where the window has more than one.
std::string moment_text(telemetry::WallTime time, const telemetry::Window& window);
/// "hw thermal slowdown 12 %, sw power cap 3 %"; "-" where it is not known, "none" where there was none.
std::string throttling_text(const GpuSummary& gpu);
/// "fell off the bus at ..."; a happening in one line, without its time.
std::string happening_text(const telemetry::Happening& happening, const Summary& summary);
/// The command as a shell would take it, or "" without one.
std::string command_text(const Summary& summary);
/// "h100x8 (simulated)" or the host's name.
std::string host_text(const Summary& summary);
/// "54 / 100 / 0 %": mean, max, min of a figure, as document and terminal tables have it; "-" where it is not known.
std::string mean_max_min(const telemetry::Statistics* figure, std::string_view unit);
/// The same of utilization, memory used, temperature and power, then energy, idle share and throttling: a GPU's row.
std::vector<std::string> figure_cells(const GpuSummary& gpu);
/// For how long a user or a job held GPUs, added up.
std::string held_text(const telemetry::Use& use);
/// What is to be known before the figures are believed: an unfinished recording, gaps, no readings. In sentences.
std::vector<std::string> caveats_of(const Summary& summary);

}  // namespace gpuwarden::recording
