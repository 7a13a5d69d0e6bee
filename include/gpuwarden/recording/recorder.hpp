// SPDX-License-Identifier: Apache-2.0
// Writes readings down as they come: a recording in a file, CSV, JSON lines; and sums them up at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/recording/html.hpp"
#include "gpuwarden/telemetry/reading.hpp"
#include "gpuwarden/telemetry/store.hpp"

namespace gpuwarden::recording {

/// What becomes of a file that is there.
enum class Existing {
  refuse,
  append,   ///< where it is a recording of the same machine; text files are written on
  replace,  ///< whatever it is, as long as it is a file
};

struct RecorderOptions {
  std::filesystem::path file;   ///< the recording; empty: none
  std::filesystem::path csv;    ///< a line for each GPU and reading; "-": standard output; empty: none
  std::filesystem::path jsonl;  ///< a document for each reading; "-" and empty as above
  Existing existing = Existing::refuse;
  telemetry::StoreInfo info;
  std::vector<Uuid> gpus;  ///< only these; empty: all
  std::string held_by;     ///< the run that the GPUs were reserved for; empty: none
  /// What helps where a file is there already, in the words of who asked.
  std::string if_it_exists =
      "choose another name with -o; --append goes on with a recording, --force replaces the file";
};

/// What a recording says of itself: of which machine, as the snapshot shows it, of which command (empty: none), and how
/// often it is read.
telemetry::StoreInfo info_of(const facts::Snapshot& snapshot, std::vector<std::string> command,
                             std::chrono::milliseconds interval);

/// "gpuwarden-HOST-20261120-140307.db".
std::string usual_file_name(const std::string& host, telemetry::WallTime time);

/// Thread-safe. What cannot be written is told once and counted; the next reading is tried again.
class Recorder {
 public:
  /// Fails where a file cannot be written, is there and may not be touched, or is no recording that can be gone on
  /// with.
  static Result<std::unique_ptr<Recorder>> open(RecorderOptions options, Clock& clock);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  void add(telemetry::Reading reading);

  struct Progress {
    std::uint64_t readings = 0;
    std::uint64_t lost = 0;        ///< readings that could not be written
    std::optional<Error> trouble;  ///< the first one
    std::size_t gpus = 0;
    std::optional<double> mean_utilization;  ///< of the last reading, over its GPUs
    std::optional<double> watts;             ///< of all its GPUs
    std::optional<double> hottest;           ///< Celsius
  };
  Progress progress() const;

  /// Closes the files in order and sums up; all of the file where it was appended to. What is added later is dropped.
  Told finish(std::optional<int> exit_code = {});

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::recording
