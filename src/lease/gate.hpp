// SPDX-License-Identifier: Apache-2.0
// One claim at a time: a lock that is held for milliseconds.
#pragma once

#include <chrono>
#include <stop_token>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::lease {

/// The gate, shut again at the end of the scope even if a child has inherited the descriptor meanwhile.
class Gate {
 public:
  /// Waits at most `patience` for one holder, and six times that where many pass. Fails with timed_out, naming who
  /// holds it, with interrupted on `stop`, and with permission_denied where the directory cannot be used.
  static Result<Gate> pass(const StoreOptions& options, Clock& clock, std::chrono::milliseconds patience,
                           const std::stop_token& stop);
  Gate(Gate&&) noexcept = default;
  Gate& operator=(Gate&&) = delete;
  ~Gate();

 private:
  explicit Gate(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace gpuwarden::lease
