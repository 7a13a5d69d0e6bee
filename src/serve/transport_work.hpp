// SPDX-License-Identifier: Apache-2.0
// Requests that read files or ask others: answered in threads of their own, so that nobody else waits for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "gpuwarden/serve/routes.hpp"
#include "serve/transport.hpp"

namespace gpuwarden::serve {

class Workers {
 public:
  /// Requests that may wait for a thread; more are refused.
  static constexpr std::size_t kMostWaiting = 128;

  /// `ready` is called, from any thread, when there is something to send.
  void begin(const Sources& sources, std::function<void()> ready);
  /// Takes the request over; false where too many wait already.
  bool take(evhttp_request& raw, Request request);
  /// Sends the answers that are there. From the thread of the sockets.
  void send_ready();
  /// Waits for what is answered just now; nothing is sent any more.
  void end();

 private:
  struct Job {
    evhttp_request* raw = nullptr;
    Request request;
    Response response;
  };
  void work(const std::stop_token& stop);

  const Sources* sources_ = nullptr;
  std::function<void()> ready_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> waiting_;
  std::deque<Job> done_;
  std::vector<std::jthread> threads_;  ///< last: they end before what they use
};

}  // namespace gpuwarden::serve
