// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/event_watcher.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/event_child.hpp"

namespace gpuwarden::probe {

using Json = nlohmann::json;

class EventWatcher::Impl {
 public:
  Impl(ReaderOptions options, Handlers handlers, std::vector<Uuid> only)
      : options_(std::move(options)), handlers_(std::move(handlers)), only_(std::move(only)) {
    // The thread starts with all signals blocked: they are for the application's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { stop(); }

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
      if (child_) child_->hang_up();
    }
    if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  }

 private:
  /// The child is forked from this thread, with which it dies.
  void run() {
    {
      const std::scoped_lock lock(mutex_);
      if (stopped_) return;
      child_ = ChildProcess::start([this](int fd) { serve_events(fd, options_, only_); });
    }
    std::optional<Error> error = child_ ? watch() : Error{ErrorCode::failed, "cannot start a process", ""};
    std::unique_ptr<ChildProcess> child;
    {
      const std::scoped_lock lock(mutex_);
      child = std::move(child_);
      if (stopped_) error.reset();
    }
    child.reset();
    if (error && handlers_.ended) handlers_.ended(*error);
  }

  bool is_stopped() {
    const std::scoped_lock lock(mutex_);
    return stopped_;
  }

  /// Takes the child's messages until it ends; why it did.
  std::optional<Error> watch() {
    const auto hello = child_->receive(options_.timeout);
    if (is_stopped()) return std::nullopt;
    if (!hello && child_->closed()) return explain_death();
    if (!hello) return explain_silence();
    if (hello->contains("problem")) return problem_in(*hello);
    if (handlers_.watching) handlers_.watching();
    while (const auto message = child_->receive(std::chrono::milliseconds(-1))) {
      if (is_stopped()) return std::nullopt;
      if (message->contains("problem")) return problem_in(*message);
      if (message->contains("event")) hand_on((*message)["event"]);
    }
    return explain_death();
  }

  static Error explain_death() {
    return {ErrorCode::unavailable, "the process that waits for GPU events was killed, or crashed",
            "look into the kernel log (dmesg) for its end; then start watching again"};
  }

  Error explain_silence() const {
    return {ErrorCode::timed_out,
            fmt::format("the NVIDIA driver did not answer within {} ms, so GPU events cannot be reported",
                        options_.timeout.count()),
            "look into the kernel log (dmesg | grep -i nvrm); a hung driver usually needs a reboot"};
  }

  static Error problem_in(const Json& message) {
    const Json& told = message["problem"];
    const bool forbidden = told.value("code", "") == to_string(ErrorCode::permission_denied);
    return {forbidden ? ErrorCode::permission_denied : ErrorCode::unavailable, told.value("message", ""),
            told.value("hint", "")};
  }

  void hand_on(const Json& json) const {
    const auto event = facts::gpu_event_from_json(json);
    if (event && handlers_.event) handlers_.event(*event);
  }

  const ReaderOptions options_;
  const Handlers handlers_;
  const std::vector<Uuid> only_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::unique_ptr<ChildProcess> child_;
  std::jthread thread_;
};

EventWatcher::EventWatcher(ReaderOptions options, Handlers handlers, std::vector<Uuid> only)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handlers), std::move(only))) {}
EventWatcher::~EventWatcher() = default;
void EventWatcher::stop() { impl_->stop(); }

}  // namespace gpuwarden::probe
