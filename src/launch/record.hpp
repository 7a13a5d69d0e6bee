// SPDX-License-Identifier: Apache-2.0
// The note of a run that lasts as long as the run, so that a later command can find what outlived all supervisors.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/lease/run_record.hpp"

namespace gpuwarden::launch {

/// A file run-ID.job that the launcher and its guardians hold locked: whoever gets the lock knows that all are gone.
/// Its first line is the run's control group (empty: none), the others are the grounds of its leases (lease::to_lines).
class RunRecord {
 public:
  /// Nothing where the folder is not named or cannot be written: a run does without.
  /// `held`: the descriptors of the leases that everything the run starts inherits.
  static std::optional<RunRecord> make(const std::filesystem::path& folder, const std::string& run_id,
                                       const std::filesystem::path& group, std::span<const int> held);
  const std::filesystem::path& path() const { return path_; }
  int lock() const { return fd_.get(); }
  void remove() const;

 private:
  RunRecord(std::filesystem::path path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::filesystem::path path_;
  UniqueFd fd_;
};

inline constexpr std::string_view kRecordPrefix = lease::kRunRecordPrefix;
inline constexpr std::string_view kRecordEnding = lease::kRunRecordEnding;

}  // namespace gpuwarden::launch
