// SPDX-License-Identifier: Apache-2.0
// A second thread that does what it is told, one thing at a time, while the first one waits: calls from two threads in
// an order that a test knows.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace gpuwarden::memory {

class OtherThread {
 public:
  OtherThread() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  /// Returns once the other thread has done it.
  void run(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    job_ = std::move(job);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !job_; });
  }

 private:
  void serve(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return static_cast<bool>(job_); })) {
      job_();
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> job_;
  std::jthread thread_;
};

}  // namespace gpuwarden::memory
