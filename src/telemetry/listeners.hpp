// SPDX-License-Identifier: Apache-2.0
// The functions of a program that wants to hear of something.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gpuwarden::telemetry {

/// Calls a program's functions outside of its own lock, one at a time. Thread-safe.
template <class Argument>
class Listeners {
 public:
  void add(std::uint64_t id, std::function<void(const Argument&)> call) {
    auto entry = std::make_shared<Entry>();
    entry->id = id;
    entry->call = std::move(call);
    const std::scoped_lock lock(mutex_);
    entries_.push_back(std::move(entry));
  }

  /// Whether there was one of this number. It is not called any more when this has returned, but for the call from
  /// which it is removed.
  bool remove(std::uint64_t id) {
    std::shared_ptr<Entry> entry;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = std::ranges::find(entries_, id, [](const auto& one) { return one->id; });
      if (found == entries_.end()) return false;
      entry = *found;
      entries_.erase(found);
    }
    entry->removed = true;
    if (entry->caller == std::this_thread::get_id()) return true;
    const std::scoped_lock until_it_returns(entry->calling);
    return true;
  }

  /// `failed` is told of a function that throws; the others are called all the same.
  template <class Failed>
  void tell(const Argument& what, const Failed& failed) const {
    std::vector<std::shared_ptr<Entry>> all;
    {
      const std::scoped_lock lock(mutex_);
      all = entries_;
    }
    for (const auto& entry : all) {
      const std::scoped_lock lock(entry->calling);
      if (entry->removed) continue;
      entry->caller = std::this_thread::get_id();
      try {
        entry->call(what);
      } catch (const std::exception& error) {
        failed(error.what());
      }
      entry->caller = std::thread::id();
    }
  }

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::function<void(const Argument&)> call;
    std::mutex calling;
    std::atomic<std::thread::id> caller;
    std::atomic<bool> removed = false;
  };
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
};

}  // namespace gpuwarden::telemetry
