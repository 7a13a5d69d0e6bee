// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/monitor.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gpuwarden/base/host_name.hpp"
#include "gpuwarden/base/orphans.hpp"
#include "telemetry/alert_state_file.hpp"
#include "telemetry/happened.hpp"
#include "telemetry/listeners.hpp"
#include "telemetry/monitor_store.hpp"
#include "telemetry/told_health.hpp"

namespace gpuwarden::telemetry {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLogged = 1000;
constexpr std::size_t kMostUses = 100'000;

template <class T>
void push_bounded(std::deque<T>& log, T entry) {
  if (log.size() == kMostLogged) log.pop_front();
  log.push_back(std::move(entry));
}

StoreInfo complete(StoreInfo info, const MonitorOptions& options) {
  if (info.host.empty()) info.host = own_host_name();
  info.simulated = options.reader.simulated;
  if (info.fleet.empty()) info.fleet = options.reader.fleet;
  if (info.interval.count() == 0) info.interval = options.sampler.interval;
  return info;
}

}  // namespace

class PerformanceMonitor::Impl {
 public:
  explicit Impl(MonitorOptions options)
      : options_(std::move(options)),
        clock_(*options_.clock),
        config_(options_.alerts),
        book_(config_.rules),
        health_book_(options_.health, std::random_device{}()),
        history_(options_.remember),
        told_health_(options_.publish_health, options_.publish_as, options_.sampler.interval, logger()) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { stop(); }

  Result<void> start() {
    if (is_own_thread()) return fail(ErrorCode::unavailable, "a monitor cannot be started from a callback of its own");
    const std::scoped_lock lock(running_mutex_);
    if (running_) return fail(ErrorCode::unavailable, "the monitor is running already");
    end_sampler();
    wants_end_ = false;
    GPUWARDEN_CHECK(load_state());
    if (!options_.store.empty()) {
      GPUWARDEN_TRY(Store opened, Store::open(options_.store, options_.store_config,
                                              complete(options_.store_info, options_), clock_));
      set_store(std::make_shared<MonitorStore>(std::move(opened), options_.store, logger()));
    }
    set_sinks(std::make_shared<SinkRunner>(config_.sinks, logger(), clock_));
    told_health_.begin();
    running_ = true;
    const std::scoped_lock sampler_lock(sampler_mutex_);
    sampler_ = std::make_unique<Sampler>(
        options_.reader, options_.sampler, options_.leases, [this](Reading reading) { hear(std::move(reading)); },
        clock_);
    return {};
  }

  /// A thread cannot wait for its own end: it closes everything itself once this reading is told.
  void stop() {
    if (is_own_thread()) {
      wants_end_ = true;
      return;
    }
    const std::scoped_lock lock(running_mutex_);
    end_sampler();
    close();
  }

  bool running() const { return running_ && !wants_end_; }
  bool is_own_thread() const { return teller_ == std::this_thread::get_id(); }
  /// Whether it closed itself, and its thread has nothing left to do.
  bool has_ended() const { return wants_end_ && !running_ && teller_ == std::thread::id(); }

  std::shared_ptr<const Reading> latest() const {
    const std::scoped_lock lock(mutex_);
    return latest_;
  }

  std::shared_ptr<const Reading> wait_for_reading(std::optional<Clock::SteadyTime> after,
                                                  std::chrono::milliseconds timeout) const {
    std::unique_lock lock(mutex_);
    const bool ran = running_;
    const auto is_there = [&] { return latest_ && (!after || latest_->when > *after); };
    came_.wait_for(lock, timeout, [&] { return is_there() || (ran && !running_); });
    return is_there() ? latest_ : nullptr;
  }

  Result<Series> history(const Uuid& gpu, std::string_view metric, Window window,
                         std::chrono::milliseconds step) const {
    const auto covered = history_.covers();
    const auto kept = store();
    const bool reaches = covered && covered->from <= window.from;
    if (kept && !reaches) {
      auto older = kept->ask(&Store::series, gpu, metric, window, step);
      if (older) return older;
    }
    return history_.series(gpu, metric, window, step);
  }

  Window last(std::chrono::milliseconds span) const {
    const auto now = clock_.wall_now() + std::chrono::milliseconds(1);
    return {now - span, now};
  }

  std::vector<facts::Health> health() const {
    const std::scoped_lock lock(mutex_);
    return health_;
  }
  std::vector<Alert> alerts() const {
    const std::scoped_lock lock(mutex_);
    return book_.active();
  }
  std::vector<AlertChange> alert_log(std::size_t most) const {
    const std::scoped_lock lock(mutex_);
    const std::size_t count = std::min(most, alert_log_.size());
    return {alert_log_.rbegin(), alert_log_.rbegin() + static_cast<std::ptrdiff_t>(count)};
  }

  Result<void> acknowledge(std::uint64_t alert, std::string by) {
    {
      const std::scoped_lock lock(mutex_);
      GPUWARDEN_CHECK(book_.acknowledge(alert, std::move(by)));
    }
    save_state();
    return {};
  }
  Result<void> silence(Silence silence) {
    {
      const std::scoped_lock lock(mutex_);
      GPUWARDEN_CHECK(book_.check(silence));
      book_.silence(std::move(silence));
    }
    save_state();
    return {};
  }
  std::vector<Silence> silences() const {
    const auto now = clock_.wall_now();
    const std::scoped_lock lock(mutex_);
    std::vector<Silence> list;
    std::ranges::copy_if(book_.silences(), std::back_inserter(list),
                         [&](const Silence& silence) { return now < silence.until; });
    return list;
  }
  bool end_silence(std::string_view rule, const Uuid& gpu) {
    {
      const std::scoped_lock lock(mutex_);
      if (!book_.end_silence(rule, gpu)) return false;
    }
    save_state();
    return true;
  }

  void set_alerts(AlertConfig config) {
    const bool runs = running();
    auto sinks = runs ? std::make_shared<SinkRunner>(config.sinks, logger(), clock_) : nullptr;
    {
      const std::scoped_lock lock(mutex_);
      book_.set_rules(config.rules);
      config_ = std::move(config);
    }
    set_sinks(std::move(sinks));
  }

  std::vector<Use> uses(Window window) const {
    std::vector<Use> list;
    if (const auto kept = store()) list = kept->ask(&Store::uses, window).value_or(std::vector<Use>{});
    if (!list.empty()) return list;
    const std::scoped_lock lock(mutex_);
    for (const KeptUse& kept : uses_) {
      if (kept.use.to > window.from && kept.use.from < window.to) list.push_back(kept.use);
    }
    return list;
  }

  std::vector<Happening> happenings(Window window, std::size_t most) const {
    if (const auto kept = store()) {
      if (auto list = kept->ask(&Store::happenings, window, most)) return std::move(*list);
    }
    const std::scoped_lock lock(mutex_);
    std::vector<Happening> list;
    for (auto at = happenings_.rbegin(); at != happenings_.rend() && list.size() < most; ++at) {
      if (at->time >= window.from && at->time < window.to) list.push_back(*at);
    }
    std::ranges::reverse(list);
    return list;
  }

  CallbackId next_callback() { return CallbackId(++last_callback_); }
  bool remove_callback(CallbackId callback) {
    const auto id = static_cast<std::uint64_t>(callback);
    return reading_listeners.remove(id) || alert_listeners.remove(id) || health_listeners.remove(id);
  }

  Listeners<Reading> reading_listeners;
  Listeners<AlertChange> alert_listeners;
  Listeners<HealthChange> health_listeners;

 private:
  /// A use, and when it was heard of: the time of day may be set.
  struct KeptUse {
    Clock::SteadyTime when{};
    Use use;
  };

  /// What a reading changed.
  struct News {
    std::vector<AlertChange> alerts;
    std::vector<HealthChange> health;
    std::vector<Use> uses;
    std::vector<Happening> happenings;
  };

  void hear(Reading reading) {
    teller_ = std::this_thread::get_id();
    take_in(std::move(reading));
    if (wants_end_) {
      {
        // Not there: another thread waits for this one to end.
        const std::scoped_lock lock(sampler_mutex_);
        if (sampler_) sampler_->stop();
      }
      close();
    }
    teller_ = std::thread::id();
  }

  void take_in(Reading reading) {
    // Files are looked into outside of the lock.
    const auto verdicts = told_health_.hear();
    const auto disabled = options_.disabled ? options_.disabled() : std::vector<facts::Disabling>{};
    const auto shared = std::make_shared<const Reading>(std::move(reading));
    history_.add(*shared);
    const News news = judge(shared, disabled, verdicts);
    if (const auto kept = store()) kept->add(*shared, news.uses, news.happenings);
    if (!news.alerts.empty()) save_state();
    came_.notify_all();
    for (const AlertChange& change : news.alerts) tell_sinks(change);
    told_health_.tell(health(), *shared);
    const auto failed = [this](const char* what) { log(std::string("a callback failed: ") + what); };
    for (const HealthChange& change : news.health) health_listeners.tell(change, failed);
    for (const AlertChange& change : news.alerts) alert_listeners.tell(change, failed);
    reading_listeners.tell(*shared, failed);
  }

  /// Waits for the sampler's thread.
  void end_sampler() {
    std::unique_ptr<Sampler> ending;
    {
      const std::scoped_lock lock(sampler_mutex_);
      ending = std::move(sampler_);
    }
  }

  /// What is done once no reading comes any more; once.
  void close() {
    if (!running_.exchange(false)) return;
    told_health_.end();
    const std::vector<Use> uses = end_uses();
    if (const auto kept = store()) {
      kept->finish(latest(), uses);
      set_store(nullptr);
    }
    save_state();
    set_sinks(nullptr);
    {
      const std::scoped_lock lock(mutex_);
    }  // who is about to wait sees that it has ended
    came_.notify_all();
  }

  News judge(const std::shared_ptr<const Reading>& reading, const std::vector<facts::Disabling>& disabled,
             const std::vector<lease::Verdict>& verdicts) {
    const std::scoped_lock lock(mutex_);
    News news;
    health_book_.recall(verdicts);
    news.health = health_book_.judge(*reading, disabled, told_health_.accepted());
    health_ = health_book_.all();
    news.alerts = book_.judge(*reading, health_);
    meter_.add(*reading);
    news.uses = meter_.take_finished();
    news.happenings = happenings_in(*reading, news.alerts, news.health);
    for (const AlertChange& change : news.alerts) push_bounded(alert_log_, change);
    for (const Happening& happening : news.happenings) push_bounded(happenings_, happening);
    for (const Use& use : news.uses) uses_.push_back({reading->when, use});
    while (!uses_.empty() && (uses_.front().when < reading->when - options_.remember || uses_.size() > kMostUses))
      uses_.pop_front();
    latest_ = reading;
    return news;
  }

  /// Those that are not over: nobody reads on.
  std::vector<Use> end_uses() {
    const std::scoped_lock lock(mutex_);
    std::vector<Use> uses = meter_.take_all();
    for (const Use& use : uses) uses_.push_back({latest_ ? latest_->when : Clock::SteadyTime{}, use});
    return uses;
  }

  void tell_sinks(const AlertChange& change) {
    std::shared_ptr<SinkRunner> sinks;
    std::optional<AlertRule> rule;
    {
      const std::scoped_lock lock(mutex_);
      sinks = sinks_;
      const auto found = std::ranges::find(config_.rules, change.alert.rule, &AlertRule::id);
      if (found != config_.rules.end()) rule = *found;
    }
    if (sinks && rule && !change.silenced) sinks->tell(*rule, change);
  }

  Result<void> load_state() {
    if (options_.state.empty()) return {};
    GPUWARDEN_TRY(const auto state, read_alert_state(options_.state));
    if (!state) return {};
    const std::scoped_lock lock(mutex_);
    if (const auto restored = book_.restore(*state); !restored)
      return damaged_alert_state(options_.state, restored.error().message);
    return {};
  }

  void save_state() {
    if (options_.state.empty()) return;
    const std::scoped_lock file_lock(state_mutex_);
    Json state;
    {
      const std::scoped_lock lock(mutex_);
      state = book_.state();
    }
    const auto written = write_alert_state(options_.state, state);
    if (!written && !std::exchange(state_failed_, true))
      log("the state of alerts cannot be written: " + written.error().message);
    if (written) state_failed_ = false;
  }

  void log(const std::string& line) {
    const std::scoped_lock lock(log_mutex_);
    if (options_.log) options_.log(line);
  }
  std::function<void(const std::string&)> logger() {
    return [this](const std::string& line) { log(line); };
  }

  std::shared_ptr<MonitorStore> store() const {
    const std::scoped_lock lock(mutex_);
    return store_;
  }
  void set_store(std::shared_ptr<MonitorStore> store) {
    const std::scoped_lock lock(mutex_);
    store_ = std::move(store);
  }
  /// The old ones end outside of the lock: they may take a second.
  void set_sinks(std::shared_ptr<SinkRunner> sinks) {
    const std::scoped_lock lock(mutex_);
    sinks_.swap(sinks);
  }

  const MonitorOptions options_;
  Clock& clock_;

  std::mutex running_mutex_;  ///< of start and stop; before all others, and never taken by callbacks
  std::atomic<bool> running_ = false;
  std::atomic<bool> wants_end_ = false;  ///< a callback has asked to stop
  std::atomic<std::thread::id> teller_;  ///< the sampler's thread, while it is at a reading
  std::atomic<std::uint64_t> last_callback_ = 0;
  std::mutex sampler_mutex_;  ///< of sampler_
  std::mutex state_mutex_;
  std::mutex log_mutex_;
  bool state_failed_ = false;

  mutable std::mutex mutex_;  ///< of what follows, but for the history, which has its own
  mutable std::condition_variable came_;
  AlertConfig config_;
  AlertBook book_;
  HealthBook health_book_;
  UsageMeter meter_;
  std::vector<facts::Health> health_;
  std::shared_ptr<const Reading> latest_;
  std::deque<AlertChange> alert_log_;
  std::deque<Happening> happenings_;
  std::deque<KeptUse> uses_;
  std::shared_ptr<MonitorStore> store_;
  std::shared_ptr<SinkRunner> sinks_;
  History history_;
  ToldHealth told_health_;            ///< the sampler's thread's own, while that runs
  std::unique_ptr<Sampler> sampler_;  ///< last: it ends before what it reports to
};

PerformanceMonitor::PerformanceMonitor(MonitorOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

PerformanceMonitor::~PerformanceMonitor() {
  impl_->stop();
  if (impl_->is_own_thread()) orphans<Impl>().add(std::move(impl_));
}

Result<void> PerformanceMonitor::start() {
  orphans<Impl>().clear_ended();
  return impl_->start();
}
void PerformanceMonitor::stop() { impl_->stop(); }
bool PerformanceMonitor::running() const { return impl_->running(); }
CallbackId PerformanceMonitor::add_reading_callback(std::function<void(const Reading&)> callback) {
  const CallbackId id = impl_->next_callback();
  impl_->reading_listeners.add(static_cast<std::uint64_t>(id), std::move(callback));
  return id;
}
CallbackId PerformanceMonitor::add_alert_callback(std::function<void(const AlertChange&)> callback) {
  const CallbackId id = impl_->next_callback();
  impl_->alert_listeners.add(static_cast<std::uint64_t>(id), std::move(callback));
  return id;
}
CallbackId PerformanceMonitor::add_health_callback(std::function<void(const HealthChange&)> callback) {
  const CallbackId id = impl_->next_callback();
  impl_->health_listeners.add(static_cast<std::uint64_t>(id), std::move(callback));
  return id;
}
bool PerformanceMonitor::remove_callback(CallbackId callback) { return impl_->remove_callback(callback); }
std::shared_ptr<const Reading> PerformanceMonitor::latest() const { return impl_->latest(); }
std::shared_ptr<const Reading> PerformanceMonitor::wait_for_reading(std::optional<Clock::SteadyTime> after,
                                                                    std::chrono::milliseconds timeout) const {
  return impl_->wait_for_reading(after, timeout);
}
Result<Series> PerformanceMonitor::history(const Uuid& gpu, std::string_view metric, Window window,
                                           std::chrono::milliseconds step) const {
  return impl_->history(gpu, metric, window, step);
}
Result<std::optional<Statistics>> PerformanceMonitor::statistics(const Uuid& gpu, std::string_view metric,
                                                                 std::chrono::milliseconds span) const {
  GPUWARDEN_TRY(const Series series, history(gpu, metric, impl_->last(span)));
  return statistics_of(series);
}
Result<std::optional<Energy>> PerformanceMonitor::energy(const Uuid& gpu, Window window) const {
  GPUWARDEN_TRY(const Series power, history(gpu, "power", window));
  GPUWARDEN_TRY(const Series counter, history(gpu, "energy", window));
  return energy_of(power, counter);
}
std::vector<facts::Health> PerformanceMonitor::health() const { return impl_->health(); }
std::vector<Alert> PerformanceMonitor::alerts() const { return impl_->alerts(); }
std::vector<AlertChange> PerformanceMonitor::alert_log(std::size_t most) const { return impl_->alert_log(most); }
Result<void> PerformanceMonitor::acknowledge(std::uint64_t alert, std::string by) {
  return impl_->acknowledge(alert, std::move(by));
}
Result<void> PerformanceMonitor::silence(Silence silence) { return impl_->silence(std::move(silence)); }
std::vector<Silence> PerformanceMonitor::silences() const { return impl_->silences(); }
bool PerformanceMonitor::end_silence(std::string_view rule, const Uuid& gpu) { return impl_->end_silence(rule, gpu); }
void PerformanceMonitor::set_alerts(AlertConfig config) { impl_->set_alerts(std::move(config)); }
std::vector<Use> PerformanceMonitor::uses(Window window) const { return impl_->uses(window); }
std::vector<Happening> PerformanceMonitor::happenings(Window window, std::size_t most) const {
  return impl_->happenings(window, most);
}

}  // namespace gpuwarden::telemetry
