// SPDX-License-Identifier: Apache-2.0
// Objects with a thread of their own that were destroyed from that thread.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpuwarden {

/// They end when what destroyed them has returned, and somebody else has to wait for their threads: whoever makes the
/// next one, where that takes no time, or the end of the program.
template <class Owner>
class Orphans {
 public:
  void add(std::shared_ptr<Owner> one) {
    const std::scoped_lock lock(mutex_);
    all_.push_back(std::move(one));
  }
  void clear_ended() {
    std::vector<std::shared_ptr<Owner>> ended;
    const std::scoped_lock lock(mutex_);
    for (auto& one : all_) {
      if (one->has_ended()) ended.push_back(std::move(one));
    }
    std::erase(all_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Owner>> all_;
};

template <class Owner>
Orphans<Owner>& orphans() {
  static Orphans<Owner> all;
  return all;
}

}  // namespace gpuwarden
