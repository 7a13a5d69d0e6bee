// SPDX-License-Identifier: Apache-2.0
// How a run went, for people.
#pragma once

#include <string>

#include "gpuwarden/healing/run.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// What the GPUs did and what was wasted in the last try, and what all tries make together where there were several.
std::string run_report_text(const launch::RunReport& report, const healing::Total& total = {});

/// A try that failed: its cause with lines and steps, and whether another one follows. `alone`: the only try there was
/// to be, which needs no number.
std::string attempt_text(const healing::Attempt& attempt, bool alone, const Style& style);
/// Why the try that was announced does not follow.
std::string no_restart_text(const healing::Attempt& attempt);

/// A document for a file; "-" is standard output.
struct ReportFile {
  std::string file;
  std::string text;
};
/// Writes them. What cannot be written is told, and makes a run that ended well fail; the exit code then.
int write_reports(const std::vector<ReportFile>& files, int code);

}  // namespace gpuwarden::cli
