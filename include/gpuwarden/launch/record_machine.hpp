// SPDX-License-Identifier: Apache-2.0
// A machine's GPUs, written down while something runs or until somebody ends it.
//
//     auto recording = launch::MachineRecording::open(machine, {.files = {.file = "night.db"}});
//     if (auto started = (*recording)->start(); !started) return started.error();
//     ...
//     const recording::Told told = (*recording)->finish();
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/recording/recorder.hpp"

namespace gpuwarden::launch {

struct RecordRequest {
  std::vector<std::string> gpus;     ///< names, as placement::expand_ranges() takes them; empty: all
  std::vector<std::string> command;  ///< that runs meanwhile, as the recording tells it; empty: none
  /// Between readings. Empty: 5 s, or a tenth of a shorter duration (100 ms at least); of a command 1 s.
  std::optional<std::chrono::milliseconds> interval;
  std::optional<std::chrono::milliseconds> duration;  ///< after which the caller will end it
  /// Where it is written. Without any file: recording::usual_file_name(). Its info and GPUs are set by open().
  recording::RecorderOptions files;
  /// What cannot be written, told once, and what the monitor has to say; may be empty. Called from another thread.
  std::function<void(const std::string&)> log;
};

/// Health is judged meanwhile, so that other processes hear of GPUs that turn out unfit.
class MachineRecording {
 public:
  /// Looks at the GPUs and opens the files. Fails with unavailable where there is no GPU, with what keeps the driver
  /// from answering, and as placement::keep_named() and recording::Recorder::open(). `machine` must outlive it.
  static Result<std::unique_ptr<MachineRecording>> open(const machine::Machine& machine, RecordRequest request);
  MachineRecording(const MachineRecording&) = delete;
  MachineRecording& operator=(const MachineRecording&) = delete;
  ~MachineRecording();

  /// Begins to read. Where a command will run it waits for the first reading, two seconds at most, so that one that
  /// ends at once has a reading, too. Fails as telemetry::PerformanceMonitor::start().
  Result<void> start();
  recording::Recorder::Progress progress() const;
  /// Ends it and sums up; `exit_code` is the command's.
  recording::Told finish(std::optional<int> exit_code = {});

  /// The GPUs that are recorded, as they were when it was opened.
  const facts::Snapshot& gpus() const;
  /// As they were completed: the files that are written, and the interval.
  const recording::RecorderOptions& files() const;

 private:
  class Impl;
  explicit MachineRecording(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::launch
