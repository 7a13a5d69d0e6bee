// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/sampler.hpp"

#include <pthread.h>

#include <csignal>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "gpuwarden/probe/machine_reader.hpp"
#include "gpuwarden/telemetry/event_inbox.hpp"
#include "telemetry/carried.hpp"
#include "telemetry/schedule.hpp"

namespace gpuwarden::telemetry {
namespace {

/// How often the walk through /proc is made, in intervals.
constexpr std::uint64_t kHolderPace = 10;

}  // namespace

class Sampler::Impl {
 public:
  Impl(probe::ReaderOptions reader, SamplerOptions options,
       std::function<std::vector<facts::Lease>(const facts::Snapshot&)> leases, std::function<void(Reading)> hear,
       Clock& clock)
      : reader_options_(std::move(reader)),
        options_(options),
        leases_(std::move(leases)),
        hear_(std::move(hear)),
        clock_(clock),
        interval_(allowed_interval(options.interval)) {
    // The thread starts with all signals blocked: they are for the application's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { stop(); }

  void stop() {
    thread_.request_stop();
    if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  }

  void read_now(bool refresh) {
    const std::scoped_lock lock(mutex_);
    wanted_ = true;
    refresh_ = refresh_ || refresh;
    nap_.request_stop();
  }

  void set_interval(std::chrono::milliseconds interval) {
    const std::scoped_lock lock(mutex_);
    interval_ = allowed_interval(interval);
    restart_ = true;
    nap_.request_stop();
  }

 private:
  /// The reader's children are forked from this thread, with which they die.
  void run(const std::stop_token& stop) {
    probe::MachineReader reader(reader_options_);
    std::optional<EventInbox> inbox;
    if (options_.events) inbox.emplace(reader_options_, [this] { read_now(true); });
    if (options_.quick_first) {
      Reading quick = read_quickly(reader, stop);
      if (stop.stop_requested()) return;
      hear_(std::move(quick));
    }
    Clock::SteadyTime start = clock_.now();
    while (!stop.stop_requested()) {
      const Clock::SteadyTime begun = clock_.now();
      if (inbox) inbox->keep_watching(begun);
      Reading reading = read(reader, begun, stop);
      if (inbox) reading.events = inbox->take();
      if (stop.stop_requested()) return;
      hear_(std::move(reading));
      wait(start, begun, stop);
    }
  }

  Reading read_quickly(probe::MachineReader& reader, const std::stop_token& stop) {
    Reading reading;
    reading.when = clock_.now();
    const auto taken_at = clock_.wall_now();
    probe::ReadRequest request;
    request.processes = options_.processes;
    request.stop = stop;
    {
      const std::scoped_lock lock(mutex_);
      request.every = interval_;
      // What this one leaves out is due at the next.
      refresh_ = true;
    }
    reading.snapshot = reader.read(request);
    reading.snapshot.taken_at = taken_at;
    reading.took = clock_.now() - reading.when;
    return reading;
  }

  Reading read(probe::MachineReader& reader, Clock::SteadyTime begun, const std::stop_token& stop) {
    Reading reading;
    reading.when = begun;
    const auto taken_at = clock_.wall_now();
    probe::ReadRequest request;
    request.detail = options_.detail;
    request.processes = options_.processes;
    request.stop = stop;
    request.links = options_.links && !carried_.has_links();
    request.holders = options_.holders && number_++ % kHolderPace == 0;
    {
      const std::scoped_lock lock(mutex_);
      request.every = interval_;
      request.refresh = std::exchange(refresh_, false);
    }
    reading.snapshot = reader.read(request);
    reading.snapshot.taken_at = taken_at;
    carried_.join_links(reading.snapshot);
    if (request.holders)
      carried_.keep_holders(reading.snapshot);
    else if (options_.holders)
      carried_.add_holders(reading.snapshot, reader_options_.driver_proc_root);
    if (leases_ && !stop.stop_requested()) reading.leases = leases_(reading.snapshot);
    reading.took = clock_.now() - begun;
    return reading;
  }

  /// Until the next reading is due, or one is wanted.
  void wait(Clock::SteadyTime& start, Clock::SteadyTime begun, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::stop_source nap;
      Clock::SteadyTime due{};
      {
        const std::scoped_lock lock(mutex_);
        if (std::exchange(restart_, false)) start = begun;
        // However much happens, the driver is not asked without a pause.
        due = wanted_ ? begun + kShortestInterval : next_reading(start, interval_, begun);
        if (!wanted_) due = std::max(due, next_reading(start, interval_, clock_.now() - std::chrono::nanoseconds(1)));
        nap_ = nap;
      }
      const auto left = due - clock_.now();
      if (left.count() <= 0) break;
      const std::stop_callback end(stop, [&nap] { nap.request_stop(); });
      if (clock_.sleep_for(left, nap.get_token())) break;
    }
    const std::scoped_lock lock(mutex_);
    wanted_ = false;
  }

  const probe::ReaderOptions reader_options_;
  const SamplerOptions options_;
  const std::function<std::vector<facts::Lease>(const facts::Snapshot&)> leases_;
  const std::function<void(Reading)> hear_;
  Clock& clock_;
  Carried carried_;
  std::uint64_t number_ = 0;

  std::mutex mutex_;
  std::chrono::milliseconds interval_;
  bool wanted_ = false;   ///< a reading beside the regular ones
  bool refresh_ = false;  ///< the next one reads what changes slowly, too
  bool restart_ = false;  ///< the interval is another
  std::stop_source nap_;
  std::jthread thread_;
};

Sampler::Sampler(probe::ReaderOptions reader, SamplerOptions options,
                 std::function<std::vector<facts::Lease>(const facts::Snapshot&)> leases,
                 std::function<void(Reading)> hear, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(reader), options, std::move(leases), std::move(hear), clock)) {}
Sampler::~Sampler() = default;
void Sampler::stop() { impl_->stop(); }
void Sampler::read_now() { impl_->read_now(false); }
void Sampler::set_interval(std::chrono::milliseconds interval) { impl_->set_interval(interval); }

}  // namespace gpuwarden::telemetry
