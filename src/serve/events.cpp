// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/events.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwarden::serve {
namespace {

constexpr std::string_view kRetry = "retry: 2000\n\n";

std::string text_of(const Event& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.kind, event.data);
}

}  // namespace

struct EventHub::Queue {
  std::mutex mutex;
  std::deque<Event> waiting;
  std::uint64_t dropped = 0;

  void push(const Event& event) {
    const std::scoped_lock lock(mutex);
    if (event.latest_only) std::erase_if(waiting, [&](const Event& other) { return other.kind == event.kind; });
    if (waiting.size() >= kQueue) {
      waiting.pop_front();
      ++dropped;
    }
    waiting.push_back(event);
  }
};

class EventHub::Listener final : public Stream {
 public:
  Listener(std::shared_ptr<Queue> queue, Clock::SteadyTime now) : queue_(std::move(queue)), spoke_(now) {}

  std::string take(Clock::SteadyTime now) override {
    std::string text;
    if (!greeted_) text = kRetry;
    greeted_ = true;
    const std::scoped_lock lock(queue_->mutex);
    if (queue_->dropped > 0)
      text += fmt::format("event: dropped\ndata: {{\"events\":{}}}\n\n", std::exchange(queue_->dropped, 0));
    for (const Event& event : queue_->waiting) text += text_of(event);
    queue_->waiting.clear();
    if (text.empty() && now - spoke_ >= kSilence) text = ": still there\n\n";
    if (!text.empty()) spoke_ = now;
    return text;
  }

 private:
  std::shared_ptr<Queue> queue_;
  Clock::SteadyTime spoke_;
  bool greeted_ = false;
};

void EventHub::on_news(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
}

std::size_t EventHub::listeners() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(queues_, [](const auto& queue) { return !queue.expired(); }));
}

void EventHub::tell(std::string_view kind, bool latest_only, const std::function<std::string()>& make) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(queues_, [](const auto& queue) { return queue.expired(); });
  if (queues_.empty() && latest_only) return;
  Event event{.id = ++last_id_, .kind = std::string(kind), .data = make(), .latest_only = latest_only};
  for (const auto& weak : queues_) {
    if (const auto queue = weak.lock()) queue->push(event);
  }
  if (!latest_only) {
    kept_.push_back(std::move(event));
    if (kept_.size() > kReplay) kept_.pop_front();
  }
  if (wake_ && !queues_.empty()) wake_();
}

std::unique_ptr<Stream> EventHub::listen(std::optional<std::uint64_t> last_id, Clock::SteadyTime now) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(queues_, [](const auto& queue) { return queue.expired(); });
  if (queues_.size() >= kMostListeners) return nullptr;
  auto queue = std::make_shared<Queue>();
  if (last_id) {
    for (const Event& event : kept_) {
      if (event.id > *last_id) queue->push(event);
    }
  }
  queues_.push_back(queue);
  return std::make_unique<Listener>(std::move(queue), now);
}

}  // namespace gpuwarden::serve
