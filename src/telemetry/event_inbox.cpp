// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/event_inbox.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gpuwarden::telemetry {
namespace {

/// More than happens between two readings; of a flood the newest are kept.
constexpr std::size_t kMostEvents = 4096;
constexpr std::chrono::milliseconds kFirstPause = std::chrono::seconds(10);
constexpr std::chrono::milliseconds kLongestPause = std::chrono::minutes(10);

bool is_serious(facts::GpuEventKind kind) {
  using Kind = facts::GpuEventKind;
  constexpr std::array kSerious{Kind::xid, Kind::ecc_double_bit, Kind::mig_config, Kind::lost};
  return std::ranges::find(kSerious, kind) != kSerious.end();
}

}  // namespace

EventInbox::EventInbox(probe::ReaderOptions reader, std::function<void()> serious, std::vector<Uuid> only)
    : reader_(std::move(reader)), serious_(std::move(serious)), only_(std::move(only)) {}

EventInbox::~EventInbox() {
  if (watcher_) watcher_->stop();
}

void EventInbox::put(const facts::GpuEvent& event) {
  {
    const std::scoped_lock lock(mutex_);
    if (events_.size() == kMostEvents) events_.pop_front();
    events_.push_back(event);
  }
  if (is_serious(event.kind)) serious_();
}

void EventInbox::keep_watching(Clock::SteadyTime now) {
  {
    const std::scoped_lock lock(mutex_);
    if (watcher_ && !ended_) return;
    if (watcher_ && !resting_) {
      resting_ = true;
      // Who has watched for long begins anew: what ended it is another matter than what did before.
      if (now - begun_ > kLongestPause) pause_ = {};
      pause_ = pause_.count() == 0 ? kFirstPause : std::min(pause_ * 2, kLongestPause);
      again_ = now + pause_;
    }
    if (watcher_ && now < again_) return;
    ended_ = resting_ = false;
    begun_ = now;
  }
  watcher_.reset();
  probe::EventWatcher::Handlers handlers;
  handlers.event = [this](const facts::GpuEvent& event) { put(event); };
  handlers.ended = [this](const Error&) {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  };
  watcher_ = std::make_unique<probe::EventWatcher>(reader_, std::move(handlers), only_);
}

std::vector<facts::GpuEvent> EventInbox::take() {
  const std::scoped_lock lock(mutex_);
  std::vector<facts::GpuEvent> events(events_.begin(), events_.end());
  events_.clear();
  return events;
}

}  // namespace gpuwarden::telemetry
