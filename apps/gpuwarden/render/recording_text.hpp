// SPDX-License-Identifier: Apache-2.0
// Recordings in words, for a terminal.
#pragma once

#include <string>

#include "gpuwarden/recording/recorder.hpp"
#include "gpuwarden/recording/summary.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// Figures of each GPU, who used them, what happened, what stands out.
std::string summary_text(const recording::Summary& summary, const Style& style);
/// Two recordings side by side.
std::string compare_text(const recording::Summary& a, const recording::Summary& b, const Style& style);
/// The line that is drawn anew while a recording goes on. `left`: of a duration that was given.
std::string progress_text(const recording::Recorder::Progress& progress, std::chrono::milliseconds passed,
                          const std::optional<std::chrono::milliseconds>& whole);
/// The GPUs' Xids and memory errors, a line each; empty where there were none.
std::string gpu_errors_text(const recording::Summary& summary);
/// What was wasted, a line or two for each finding, behind `indent` blanks.
std::string waste_text(const std::vector<recording::Waste>& waste, const Style& style, std::size_t indent);

}  // namespace gpuwarden::cli
