// SPDX-License-Identifier: Apache-2.0
// Facts in files that cannot be read now: said, not taken for none.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/telemetry/monitor.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

/// A value that one thread sets and others get.
template <class T>
class Shared {
 public:
  explicit Shared(T value) : value_(std::move(value)) {}
  T get() const {
    const std::scoped_lock lock(mutex_);
    return value_;
  }
  void set(T value) {
    const std::scoped_lock lock(mutex_);
    value_ = std::move(value);
  }

 private:
  mutable std::mutex mutex_;
  T value_;
};

/// Who has reserved what and what is disabled, with what is wrong where that cannot be told. `machine` must outlive it.
class Unknowns {
 public:
  explicit Unknowns(const Machine& machine) : machine_(machine) {}
  /// None where they are not known.
  std::vector<facts::Lease> leases(const facts::Snapshot& snapshot);
  /// Where that is not known now, as it was known last: nothing is enabled by a file that cannot be read.
  std::vector<facts::Disabling> disabled();
  /// As disabled() found it last, with the GPUs that monitors judge unfit. From any thread.
  std::vector<facts::Disabling> out_of_use() const { return out_of_use_.get(); }

  std::optional<Error> leases_problem() const { return leases_problem_.get(); }
  std::optional<Error> disablings_problem() const { return disablings_problem_.get(); }

 private:
  const Machine& machine_;
  std::vector<facts::Disabling> known_;  ///< the monitor's thread's own
  Shared<std::vector<facts::Disabling>> out_of_use_{std::vector<facts::Disabling>{}};
  Shared<std::optional<Error>> leases_problem_{std::nullopt};
  Shared<std::optional<Error>> disablings_problem_{std::nullopt};
};

using RuleIds = std::set<std::string, std::less<>>;
/// The rules whose words quote command lines of processes.
RuleIds rules_quoting(const telemetry::AlertConfig& alerts);

}  // namespace gpuwarden::cli
