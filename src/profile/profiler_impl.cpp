// SPDX-License-Identifier: Apache-2.0
#include "profile/profiler_impl.hpp"

namespace gpuwarden::profile {
namespace {

/// Timings beyond so many are given up: the device is far behind, or never comes.
constexpr std::size_t kMostTimings = 8192;
/// The device is asked after so many timings, about as many of them.
constexpr std::size_t kTimingsAtOnce = 64;

}  // namespace

void Profiler::Entry::forget() {
  wall = {};
  device = {};
  self = {};
  told = 0;
  joules.reset();
  utilization_seconds = utilization_known = 0;
  memory_peak.reset();
  memory_change.reset();
}

Operation Profiler::Entry::operation() {
  const Durations on_device = device.summary();
  return {.name = name,
          .wall = wall.summary(),
          .self = self,
          .device = on_device.count > 0 ? std::optional(on_device) : std::nullopt,
          .told = told,
          .joules = joules,
          .utilization = utilization_known > 0 ? std::optional(utilization_seconds / utilization_known) : std::nullopt,
          .memory_peak = memory_peak,
          .memory_change = memory_change};
}

Profiler::Impl::Impl(ProfilerOptions options)
    : clock(*options.clock),
      max_names(options.max_names),
      max_spans(options.max_events),
      steady_origin(clock.now()),
      wall_origin(clock.wall_now()),
      log(options.max_events),
      readings(options.max_readings) {
  instruments = std::make_shared<const Instruments>(
      Instruments{std::move(options.device), std::move(options.ranges), std::move(options.memory)});
}

std::shared_ptr<const Profiler::Instruments> Profiler::Impl::current_instruments() {
  const std::scoped_lock lock(instruments_mutex);
  return instruments;
}

Profiler::Entry& Profiler::Impl::entry_of(std::string_view name) {
  Shard& shard = shards[TextHash()(name) % shards.size()];
  {
    const std::scoped_lock lock(shard.mutex);
    if (const auto found = shard.entries.find(name); found != shard.entries.end()) return *found->second;
    if (name == kOtherNames || names.fetch_add(1) < max_names) {
      auto entry = std::make_unique<Entry>();
      entry->name = name;
      return *shard.entries.emplace(entry->name, std::move(entry)).first->second;
    }
    --names;
  }
  return entry_of(kOtherNames);
}

void Profiler::Impl::expect(const Timing& timing) {
  std::optional<Timing> given_up;
  std::size_t waiting = 0;
  {
    const std::scoped_lock lock(timings_mutex);
    timings.push_back(timing);
    if (timings.size() > kMostTimings) {
      given_up = timings.front();
      timings.pop_front();
    }
    waiting = timings.size();
  }
  if (given_up) {
    given_up->timer->release(given_up->start);
    given_up->timer->release(given_up->end);
  }
  if (waiting % kTimingsAtOnce == 0) settle(false);
}

void Profiler::Impl::settle(bool wait) {
  std::deque<Timing> due;
  {
    const std::scoped_lock lock(timings_mutex);
    const auto count =
        static_cast<std::ptrdiff_t>(wait ? timings.size() : std::min(timings.size(), 2 * kTimingsAtOnce));
    due.assign(timings.begin(), timings.begin() + count);
    timings.erase(timings.begin(), timings.begin() + count);
  }
  std::erase_if(due, [&](const Timing& timing) { return settle(timing, wait); });
  const std::scoped_lock lock(timings_mutex);
  timings.insert(timings.begin(), due.begin(), due.end());
}

bool Profiler::Impl::settle(const Timing& timing, bool wait) {
  const auto elapsed = timing.timer->elapsed(timing.start, timing.end, wait);
  if (elapsed.state == DeviceTimer::State::pending) return false;
  timing.timer->release(timing.start);
  timing.timer->release(timing.end);
  if (elapsed.state == DeviceTimer::State::lost) return true;
  {
    const std::scoped_lock lock(timing.entry->mutex);
    timing.entry->device.add(elapsed.time);
  }
  log.set_device(timing.serial, elapsed.time);
  return true;
}

void Profiler::Impl::expect(const Span& span) {
  const std::scoped_lock lock(spans_mutex);
  spans.push_back(span);
  if (spans.size() > max_spans) spans.pop_front();
}

void Profiler::Impl::tell(const Span& span) {
  const auto seen = readings.span(span.start, span.end);
  if (!seen) return;
  const double seconds = std::chrono::duration<double>(span.end - span.start).count();
  const std::scoped_lock lock(span.entry->mutex);
  Entry& entry = *span.entry;
  ++entry.told;
  if (seen->joules) entry.joules = entry.joules.value_or(0) + *seen->joules;
  if (seen->utilization) {
    // A run that took no time has a weight all the same.
    const double weight = std::max(seconds, 1e-9);
    entry.utilization_seconds += *seen->utilization * weight;
    entry.utilization_known += weight;
  }
  entry.memory_peak = std::max(entry.memory_peak, seen->memory_peak);
}

}  // namespace gpuwarden::profile
