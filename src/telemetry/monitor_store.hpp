// SPDX-License-Identifier: Apache-2.0
// A monitor's store, written and read from several threads; what cannot be written is said once, and tried again.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/telemetry/store.hpp"

namespace gpuwarden::telemetry {

class MonitorStore {
 public:
  MonitorStore(Store store, std::function<void(const std::string&)> log)
      : store_(std::move(store)), log_(std::move(log)) {}

  void add(const Reading& reading, const std::vector<Use>& uses, const std::vector<Happening>& happenings);
  /// Writes what is left after the last reading, and closes the file in order.
  void finish(const std::shared_ptr<const Reading>& last, const std::vector<Use>& uses);

  template <class Result, class... Parameters, class... Arguments>
  Result ask(Result (Store::*question)(Parameters...) const, const Arguments&... arguments) const {
    const std::scoped_lock lock(mutex_);
    return (store_.*question)(arguments...);
  }

 private:
  void note(const Result<void>& outcome);

  mutable std::mutex mutex_;
  Store store_;
  std::function<void(const std::string&)> log_;
  bool failing_ = false;
  /// What a failed write leaves for the next one; readings themselves are not kept.
  std::vector<Use> uses_;
  std::vector<Happening> happenings_;
};

}  // namespace gpuwarden::telemetry
