// SPDX-License-Identifier: Apache-2.0
// What a probe::EventWatcher hears between two readings; begins to watch anew where watching has ended.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/probe/event_watcher.hpp"

namespace gpuwarden::telemetry {

/// For one who reads in a thread of its own: all but the handler that is called is for that thread.
class EventInbox {
 public:
  /// `serious` is called from the watcher's thread when something happened that should not wait for the next reading.
  /// `only`: as probe::EventWatcher takes them.
  EventInbox(probe::ReaderOptions reader, std::function<void()> serious, std::vector<Uuid> only = {});
  EventInbox(const EventInbox&) = delete;
  EventInbox& operator=(const EventInbox&) = delete;
  ~EventInbox();

  /// Watches, if it does not; where watching ended by itself it begins again after 10 s, then ever more seldom.
  void keep_watching(Clock::SteadyTime now);
  std::vector<facts::GpuEvent> take();

 private:
  void put(const facts::GpuEvent& event);

  probe::ReaderOptions reader_;
  std::function<void()> serious_;
  std::vector<Uuid> only_;
  std::mutex mutex_;
  std::deque<facts::GpuEvent> events_;
  bool ended_ = false;
  bool resting_ = false;
  Clock::SteadyTime begun_{};
  Clock::SteadyTime again_{};
  std::chrono::milliseconds pause_{};
  std::unique_ptr<probe::EventWatcher> watcher_;  ///< last: it is ended before what its handlers use
};

}  // namespace gpuwarden::telemetry
