// SPDX-License-Identifier: Apache-2.0
// The functions of a program that wants to hear of something.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace gpuwarden::telemetry {

/// Calls a program's functions outside of all locks, one at a time.
template <class Argument>
class Listeners {
 public:
  void add(std::function<void(const Argument&)> listener) {
    const std::scoped_lock lock(mutex_);
    listeners_.push_back(std::move(listener));
  }
  void tell(const Argument& what) const {
    std::vector<std::function<void(const Argument&)>> all;
    {
      const std::scoped_lock lock(mutex_);
      all = listeners_;
    }
    for (const auto& listener : all) listener(what);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::function<void(const Argument&)>> listeners_;
};

}  // namespace gpuwarden::telemetry
