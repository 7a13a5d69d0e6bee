// SPDX-License-Identifier: Apache-2.0
// The way of the ranks' output: from their pipes, line by line, to our standard streams and the log files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::launch {

/// One of our standard streams, or with -1 none: what is written there is dropped. Never waits for its reader: what
/// cannot be written at once is kept, so that signals are heard meanwhile.
class Outlet {
 public:
  explicit Outlet(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  void write(std::string_view text);
  /// Writes what is kept, as far as that goes without waiting.
  void pump();
  /// Something is kept: poll fd() for writing before more is read from ranks.
  bool waiting() const { return at_ < kept_.size(); }
  /// Its reader has closed it, as `head` does: nothing is kept any more.
  bool reader_gone() const { return reader_gone_; }
  /// errno of a write that failed otherwise; output is dropped from then on.
  std::optional<int> error() const { return error_; }

 private:
  void note_failure(int error);
  int fd_;
  std::string kept_;
  std::size_t at_ = 0;
  bool reader_gone_ = false;
  bool terminal_gone_ = false;
  std::optional<int> error_;
};

/// Cuts a stream into lines and passes them on with a prefix; a line is written whole. The log gets the bytes as they
/// come, until it cannot be written.
class LineWriter {
 public:
  LineWriter(std::string prefix, Outlet& target, UniqueFd log)
      : prefix_(std::move(prefix)), target_(&target), log_(std::move(log)) {}
  void add(std::string_view data);
  /// Writes what is there of an unfinished line.
  void flush();
  bool has_partial() const { return !line_.empty(); }
  Outlet& target() const { return *target_; }
  bool has_log() const { return static_cast<bool>(log_); }
  /// Closes the log; errno of what could not be written to it, if anything.
  std::optional<int> close_log();
  std::optional<int> log_error() const { return log_error_; }
  /// Bytes go on as they come: nobody else writes beside them, so that lines need not be kept whole.
  void pass_through() { passes_through_ = true; }
  /// From here on the last kMostKept bytes are kept.
  void keep_end() { keeps_end_ = true; }
  std::string end() const;
  static constexpr std::size_t kMostKept = 65536;

 private:
  void emit(std::string_view line, char ending);
  void keep(std::string_view data);
  std::string prefix_;
  std::string line_;
  Outlet* target_;
  UniqueFd log_;
  std::optional<int> log_error_;
  std::string end_;  ///< grows to twice what is kept, then is cut
  bool keeps_end_ = false;
  bool passes_through_ = false;
};

}  // namespace gpuwarden::launch
