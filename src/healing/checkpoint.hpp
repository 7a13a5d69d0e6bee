// SPDX-License-Identifier: Apache-2.0
// Whether a program has just saved its state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

namespace gpuwarden::healing {

/// A file or folder that changes with each checkpoint. What still changes between two looks is not yet whole.
class Checkpoint {
 public:
  explicit Checkpoint(std::filesystem::path file) : file_(std::move(file)) {}
  /// What is saved from now on counts.
  void begin() { done_ = seen_ = stamp(); }
  /// True once for each checkpoint.
  bool was_written();

 private:
  /// When it was last written, and how long it is; empty: there is none.
  using Stamp = std::optional<std::pair<std::int64_t, std::int64_t>>;
  Stamp stamp() const;

  const std::filesystem::path file_;
  Stamp done_;
  Stamp seen_;
};

}  // namespace gpuwarden::healing
