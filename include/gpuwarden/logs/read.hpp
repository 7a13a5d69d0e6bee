// SPDX-License-Identifier: Apache-2.0
// Reads logs of any size, and what they tell about the machine they were written on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/diagnosis/event.hpp"
#include "gpuwarden/logs/find.hpp"

namespace gpuwarden::logs {

/// A file that was read.
struct LogRead {
  std::string name;  ///< as evidence names it
  std::optional<std::int64_t> rank;
  std::uint64_t lines = 0;
  std::uint64_t bytes = 0;
  bool text = true;  ///< false: it was named, and looks like no text
};

struct Logs {
  diagnosis::Reading reading;               ///< of all files
  std::optional<capture::Capture> machine;  ///< what reports and tables among the lines tell
  std::vector<LogRead> files;
  std::vector<Error> problems;  ///< of files that could not be read, or not to their end
  std::vector<Error> skipped;   ///< of files that nobody named and that hold no text
};

/// Reads the files in pieces; packed ones, archives and gpuwarden's bundles are unpacked in memory (at most 64 MiB).
/// Files that were found in a folder or an archive and hold no text are skipped.
Logs read_logs(const LogFiles& files);

/// What is to be known of what was read: that a file is empty, or does not look like text, and which were skipped. Safe
/// to print.
std::vector<std::string> remarks_on(const Logs& logs);
/// Why nothing was read, where that is because all that was found was skipped.
std::optional<Error> nothing_read(const Logs& logs);

}  // namespace gpuwarden::logs
