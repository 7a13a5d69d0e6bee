// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/sinks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/net/http.hpp"
#include "telemetry/sink_command.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr std::chrono::seconds kFarewell{1};

/// A pipe that nobody reads must not hold the thread up.
Result<void> append_line(const std::string& path, const std::string& line) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640));
  if (!file) return std::unexpected(error_from_errno(errno, "cannot write " + path));
  return write_descriptor(file.get(), line + "\n", path);
}

bool may_be_taken_later(const Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::timed_out;
}

}  // namespace

/// What the sinks have in common.
struct SinkOutside {
  std::function<void(const std::string&)> log;
  Clock& clock;
  Post post;
  std::mutex log_mutex{};

  void write(const std::string& line) {
    const std::scoped_lock lock(log_mutex);
    if (log) log(line);
  }
};

/// One sink: its queue, and the thread that empties it.
class SinkWorker {
 public:
  SinkWorker(SinkSpec spec, SinkOutside& outside) : spec_(std::move(spec)), outside_(outside) {
    loss_.sink = spec_.name;
    random_.seed(std::random_device{}());
    // The thread starts with all signals blocked: they are for the application's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  const SinkSpec& spec() const { return spec_; }

  void push(const AlertChange& change) {
    const std::scoped_lock lock(mutex_);
    if (queue_.size() == SinkRunner::kMost) {
      queue_.pop_front();
      ++loss_.dropped;
    }
    queue_.push_back(change);
    changed_.notify_all();
  }

  SinkRunner::Loss loss() const {
    const std::scoped_lock lock(mutex_);
    return loss_;
  }

  void wait_until_empty(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, end, [this] { return queue_.empty() && !busy_; });
  }
  void request_stop() { thread_.request_stop(); }

 private:
  void run(const std::stop_token& stop) {
    while (const auto change = next(stop)) {
      const Result<void> done = deliver(*change, stop);
      note(done);
      if (!done && !stop.stop_requested())
        outside_.write(fmt::format("alerts cannot be told to '{}': {}", spec_.name, done.error().message));
    }
  }

  std::optional<AlertChange> next(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return !queue_.empty(); }) || stop.stop_requested()) return std::nullopt;
    AlertChange change = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    return change;
  }

  void note(const Result<void>& done) {
    const std::scoped_lock lock(mutex_);
    busy_ = false;
    if (done) {
      ++loss_.told;
    } else {
      ++loss_.failed;
      loss_.last_error = done.error().message;
    }
    changed_.notify_all();
  }

  Result<void> deliver(const AlertChange& change, const std::stop_token& stop) {
    switch (spec_.kind) {
      case SinkSpec::Kind::command:
        return run_sink_command(spec_.command, body_of(change), SinkRunner::kCommandTime, stop);
      case SinkSpec::Kind::webhook:
        return post(body_of(change, spec_.body), stop);
      default:
        break;
    }
    const std::string line = line_of(change);
    if (!spec_.target.empty()) return append_line(spec_.target, format_utc(outside_.clock.wall_now()) + " " + line);
    outside_.write(line);
    return {};
  }

  Result<void> post(const std::string& body, const std::stop_token& stop) {
    for (unsigned tries = 1;; ++tries) {
      Result<void> done = outside_.post(spec_.target, body, stop);
      if (done || tries == SinkRunner::kTries || !may_be_taken_later(done.error())) return done;
      if (!outside_.clock.sleep_for(pause_after(tries), stop)) return done;
    }
  }

  /// Doubled each time, with a fifth of jitter to both sides, so that many machines do not come back at once.
  std::chrono::nanoseconds pause_after(unsigned tries) {
    const double seconds =
        std::min(std::ldexp(static_cast<double>(SinkRunner::kFirstPause.count()), static_cast<int>(tries) - 1),
                 static_cast<double>(SinkRunner::kLongestPause.count()));
    std::uniform_real_distribution<double> jitter(0.8, 1.2);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds * jitter(random_)));
  }

  SinkSpec spec_;
  SinkOutside& outside_;
  std::minstd_rand random_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<AlertChange> queue_;
  bool busy_ = false;
  SinkRunner::Loss loss_;
  std::jthread thread_;  ///< the last member: it uses all others
};

std::string line_of(const AlertChange& change) {
  const Alert& alert = change.alert;
  std::string line = fmt::format("{} {}: {}{}{} [{}]", to_string(alert.level), to_string(change.kind),
                                 alert.host.empty() ? "" : alert.host + ": ", alert.message,
                                 alert.count > 1 ? fmt::format(" ({} times)", alert.count) : "", alert.rule);
  for (const std::string& other : alert.also) line += "; also: " + other;
  if (change.kind != AlertChange::Kind::ended && !alert.next_step.empty()) line += "; next: " + alert.next_step;
  return printable(alert.simulated ? "simulated: " + line : line);
}

std::string body_of(const AlertChange& change, SinkSpec::Body body) {
  if (body == SinkSpec::Body::slack) return facts::json_line({{"text", line_of(change)}});
  if (body == SinkSpec::Body::discord) return facts::json_line({{"content", line_of(change)}});
  nlohmann::json document = facts::document(to_json(change));
  document["text"] = line_of(change);
  return facts::json_line(document);
}

class SinkRunner::Impl {
 public:
  Impl(std::vector<SinkSpec> sinks, std::function<void(const std::string&)> log, Clock& clock, Post post)
      : outside_{std::move(log), clock, post ? std::move(post) : Post(net::post_json)} {
    for (SinkSpec& sink : sinks) workers_.push_back(std::make_unique<SinkWorker>(std::move(sink), outside_));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    const auto end = std::chrono::steady_clock::now() + kFarewell;
    for (const auto& worker : workers_) worker->wait_until_empty(end);
    for (const auto& worker : workers_) worker->request_stop();
  }

  void tell(const AlertRule& rule, const AlertChange& change) {
    if (change.silenced) return;
    for (const auto& worker : workers_) {
      const SinkSpec& sink = worker->spec();
      const bool meant = rule.sinks.empty() || std::ranges::find(rule.sinks, sink.name) != rule.sinks.end();
      if (meant && change.alert.level >= sink.at_least) worker->push(change);
    }
  }

  std::vector<Loss> losses() const {
    std::vector<Loss> all;
    for (const auto& worker : workers_) all.push_back(worker->loss());
    return all;
  }

 private:
  SinkOutside outside_;
  std::vector<std::unique_ptr<SinkWorker>> workers_;
};

SinkRunner::SinkRunner(std::vector<SinkSpec> sinks, std::function<void(const std::string&)> log, Clock& clock,
                       Post post)
    : impl_(std::make_unique<Impl>(std::move(sinks), std::move(log), clock, std::move(post))) {}
SinkRunner::~SinkRunner() = default;

void SinkRunner::tell(const AlertRule& rule, const AlertChange& change) { impl_->tell(rule, change); }
std::vector<SinkRunner::Loss> SinkRunner::losses() const { return impl_->losses(); }

}  // namespace gpuwarden::telemetry
