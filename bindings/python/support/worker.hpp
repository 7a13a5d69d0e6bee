// SPDX-License-Identifier: Apache-2.0
// A thread that does one thing after the other. What it forks lives on between them: the kernel ends a child that asked
// for it (PR_SET_PDEATHSIG) with the thread that forked it, not with the process.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <stop_token>
#include <thread>

namespace gpuwarden::python {

class Worker {
 public:
  Worker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}

  /// What `task` will have given, or thrown; in its turn. Tasks that wait when the worker ends are still done.
  template <class Task>
  auto start(Task task) {
    auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
    auto result = packaged->get_future();
    {
      const std::scoped_lock lock(mutex_);
      tasks_.emplace([packaged] { (*packaged)(); });
    }
    changed_.notify_one();
    return result;
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !tasks_.empty(); })) {
      auto task = std::move(tasks_.front());
      tasks_.pop();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::queue<std::function<void()>> tasks_;
  std::jthread thread_;
};

}  // namespace gpuwarden::python
