// SPDX-License-Identifier: Apache-2.0
#include "serve/transport_work.hpp"

#include <utility>

#include "serve/transport_request.hpp"

namespace gpuwarden::serve {
namespace {

/// One may wait for a driver while the other reads history.
constexpr int kThreads = 2;

}  // namespace

void Workers::begin(const Sources& sources, std::function<void()> ready) {
  sources_ = &sources;
  ready_ = std::move(ready);
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

bool Workers::take(evhttp_request& raw, Request request) {
  const std::scoped_lock lock(mutex_);
  if (waiting_.size() >= kMostWaiting) return false;
  waiting_.push_back({&raw, std::move(request), {}});
  changed_.notify_one();
  return true;
}

void Workers::work(const std::stop_token& stop) {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); }) || stop.stop_requested()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    job.response = answer(*sources_, job.request);
    {
      const std::scoped_lock lock(mutex_);
      done_.push_back(std::move(job));
    }
    ready_();
  }
}

void Workers::send_ready() {
  std::deque<Job> done;
  {
    const std::scoped_lock lock(mutex_);
    done.swap(done_);
  }
  // One whose connection is gone is freed by libevent here.
  for (Job& job : done) send_whole(*job.raw, std::move(job.response));
}

void Workers::end() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  waiting_.insert(waiting_.end(), std::make_move_iterator(done_.begin()), std::make_move_iterator(done_.end()));
  done_.clear();
  for (const Job& job : waiting_) {
    // A request that has lost its connection is nobody's any more but ours; the others go with theirs.
    if (evhttp_request_get_connection(job.raw) == nullptr) evhttp_request_free(job.raw);
  }
  waiting_.clear();
}

}  // namespace gpuwarden::serve
