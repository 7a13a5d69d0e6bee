// SPDX-License-Identifier: Apache-2.0
// Readings as text: CSV and JSON lines, and the files they go to.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/recording/recorder.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::recording {

/// The names of the columns: those of the JSON, with its units; every metric of the table.
std::string csv_heading();
/// A line for each GPU. What is not known is empty.
std::string csv_lines(const telemetry::Reading& reading);
/// The snapshot as `gpuwarden list --json` prints it, and the events, on one line.
std::string json_line_of(const telemetry::Reading& reading);

/// A file that is written on, or standard output.
class TextFile {
 public:
  /// Fails as Recorder::open says.
  static Result<TextFile> open(const std::filesystem::path& path, Existing existing);
  /// Whether nothing was in it yet.
  bool fresh() const { return fresh_; }
  Result<void> write(std::string_view text);

 private:
  UniqueFd own_;
  int fd_ = -1;
  std::string name_;
  bool fresh_ = true;
};

}  // namespace gpuwarden::recording
