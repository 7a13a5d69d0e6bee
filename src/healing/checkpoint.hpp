// SPDX-License-Identifier: Apache-2.0
// Whether a program has just saved its state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "gpuwarden/base/clock.hpp"

namespace gpuwarden::healing {

/// A file or folder that changes with each checkpoint. What has changed within the last 3 s is not yet whole.
class Checkpoint {
 public:
  Checkpoint(std::filesystem::path file, Clock& clock) : file_(std::move(file)), clock_(clock) {}
  /// What is saved from now on counts.
  void begin();
  /// True once for each checkpoint.
  bool was_written();

 private:
  /// When it, or anything in it, was last written, and how long all of it is; empty: there is none.
  using Stamp = std::optional<std::pair<std::int64_t, std::int64_t>>;
  Stamp stamp() const;

  const std::filesystem::path file_;
  Clock& clock_;
  Stamp done_;
  Stamp seen_;
  Clock::SteadyTime seen_since_;
};

}  // namespace gpuwarden::healing
