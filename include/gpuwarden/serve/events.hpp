// SPDX-License-Identifier: Apache-2.0
// What happens, told to all who listen (server-sent events): a bounded queue for each, and what was missed on
// reconnection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/serve/http.hpp"

namespace gpuwarden::serve {

struct Event {
  std::uint64_t id = 0;
  std::string kind;          ///< "reading", "alert", "health"
  std::string data;          ///< a line of JSON
  bool latest_only = false;  ///< one that waits is replaced by the next of its kind
};

/// Thread-safe. Who listens is a Stream; it may outlive the hub.
class EventHub {
 public:
  static constexpr std::size_t kQueue = 64;    ///< waiting events of a listener; beyond them the oldest goes
  static constexpr std::size_t kReplay = 256;  ///< events that are kept for those who come back
  static constexpr std::chrono::seconds kSilence{15};
  static constexpr std::size_t kMostListeners = 128;

  /// Tells all. `make` is called where somebody listens, or where the event is kept for replay.
  void tell(std::string_view kind, bool latest_only, const std::function<std::string()>& make);
  /// A new listener, who gets what came after `last_id` first; nullptr where there are too many.
  std::unique_ptr<Stream> listen(std::optional<std::uint64_t> last_id, Clock::SteadyTime now);
  std::size_t listeners() const;
  /// Called, from the teller's thread, when there is something to take; set before anybody tells.
  void on_news(std::function<void()> wake);

 private:
  struct Queue;
  class Listener;
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::deque<Event> kept_;
  std::vector<std::weak_ptr<Queue>> queues_;
  std::function<void()> wake_;
};

}  // namespace gpuwarden::serve
