// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/profiler.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "profile/open_scopes.hpp"
#include "profile/profiler_impl.hpp"

namespace gpuwarden::profile {
namespace {

std::atomic<unsigned> fork_count{0};

OpenScopes& open_scopes() {
  // On the heap: the loader keeps little room for what libraries hold for each thread, and PyTorch's want some of it.
  thread_local const auto scopes = std::make_unique<OpenScopes>();
  return *scopes;
}

std::int64_t thread_number() {
  thread_local std::int64_t number = 0;
  thread_local unsigned asked_after = 0;
  if (const unsigned forks = fork_count.load(std::memory_order_relaxed); number == 0 || asked_after != forks) {
    number = ::gettid();
    asked_after = forks;
  }
  return number;
}

}  // namespace

const std::atomic<unsigned>& Profiler::forks() {
  // A child has one thread of its parent's, and whatever locks the others held stay held: it must not touch them.
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++fork_count; });
  (void)registered;
  return fork_count;
}

Profiler::Profiler(ProfilerOptions options)
    : enabled_(options.enabled), generation_(forks().load()), impl_(std::make_unique<Impl>(std::move(options))) {}

Profiler::~Profiler() = default;

void Profiler::set_device(std::shared_ptr<DeviceTimer> device) {
  impl_->change_instruments([&](Instruments& all) { all.device = std::move(device); });
}

void Profiler::set_ranges(std::shared_ptr<Ranges> ranges) {
  impl_->change_instruments([&](Instruments& all) { all.ranges = std::move(ranges); });
}

void Profiler::set_memory(std::function<std::optional<Bytes>()> memory) {
  impl_->change_instruments([&](Instruments& all) { all.memory = std::move(memory); });
}

void Profiler::hear(std::span<const GpuReading> readings) {
  if (generation_ != forks().load() || readings.empty()) return;
  const std::scoped_lock lock(impl_->readings_mutex);
  for (const auto& reading : readings) impl_->readings.add(reading);
  impl_->heard = true;
  std::vector<Impl::Span> due;
  {
    const std::scoped_lock spans_lock(impl_->spans_mutex);
    // They stand nearly in the order of their ends; one that has to wait is asked for with the next reading.
    while (!impl_->spans.empty() && impl_->readings.reach(impl_->spans.front().end)) {
      due.push_back(impl_->spans.front());
      impl_->spans.pop_front();
    }
  }
  for (const auto& span : due) impl_->tell(span);
}

std::vector<Operation> Profiler::results() {
  if (generation_ != forks().load()) return {};
  impl_->settle(true);
  std::vector<Operation> result;
  impl_->for_each_entry([&](Entry& entry) {
    Operation operation = entry.operation();
    if (operation.wall.count > 0) result.push_back(std::move(operation));
  });
  std::ranges::sort(result, [](const Operation& a, const Operation& b) {
    return a.wall.total != b.wall.total ? a.wall.total > b.wall.total : a.name < b.name;
  });
  return result;
}

Trace Profiler::trace() {
  Trace trace{.process = ::getpid(), .steady_origin = impl_->steady_origin, .wall_origin = impl_->wall_origin};
  if (generation_ != forks().load()) return trace;
  impl_->settle(true);
  impl_->log.copy_to(trace);
  const std::scoped_lock lock(impl_->readings_mutex);
  trace.readings = impl_->readings.all();
  return trace;
}

void Profiler::reset() {
  if (generation_ != forks().load()) return;
  impl_->settle(true);
  impl_->for_each_entry([](Entry& entry) { entry.forget(); });
  impl_->log.clear();
  {
    const std::scoped_lock lock(impl_->spans_mutex);
    impl_->spans.clear();
  }
  const std::scoped_lock lock(impl_->readings_mutex);
  impl_->readings.clear();
  impl_->heard = false;
}

Profiler& default_profiler() {
  // Never destroyed: threads may profile until the very end.
  static auto* const profiler = new Profiler();
  return *profiler;
}

void Scope::begin(std::string_view name, Profiler& profiler, DeviceTimer::StreamHandle stream) {
  auto& impl = *profiler.impl_;
  entry_ = &impl.entry_of(name);
  instruments_ = impl.current_instruments();
  stream_ = stream;
  const auto opened = open_scopes().open(&profiler);
  number_ = opened.number;
  depth_ = opened.depth;
  if (instruments_->ranges) range_ = instruments_->ranges->begin(entry_->name.c_str());
  if (instruments_->memory) memory_ = instruments_->memory();
  if (instruments_->device) mark_ = instruments_->device->mark(stream);
  profiler_ = &profiler;
  start_ = impl.clock.now();
}

void Scope::finish() {
  auto& impl = *profiler_->impl_;
  const auto end = impl.clock.now();
  const bool forked = profiler_->generation_ != Profiler::forks().load(std::memory_order_relaxed);
  profiler_ = nullptr;
  const std::chrono::nanoseconds wall = end - start_;
  const auto within = open_scopes().close(number_, wall);
  if (forked) return;
  const auto end_mark = mark_ != 0 ? instruments_->device->mark(stream_) : 0;
  const auto memory = memory_ ? instruments_->memory() : std::nullopt;
  if (instruments_->ranges) instruments_->ranges->end(range_);
  {
    const std::scoped_lock lock(entry_->mutex);
    entry_->wall.add(wall);
    entry_->self += std::max(wall - within, std::chrono::nanoseconds(0));
    if (memory)
      entry_->memory_change = entry_->memory_change.value_or(0) +
                              (static_cast<std::int64_t>(memory->value) - static_cast<std::int64_t>(memory_->value));
  }
  const auto serial = impl.log.add(
      {.name = &entry_->name, .start = start_, .wall = wall, .thread = thread_number(), .depth = depth_, .device = {}});
  if (end_mark != 0) {
    impl.expect(Profiler::Impl::Timing{entry_, serial, instruments_->device, mark_, end_mark});
  } else if (mark_ != 0) {
    instruments_->device->release(mark_);
  }
  instruments_.reset();
  if (impl.heard.load(std::memory_order_relaxed)) impl.expect(Profiler::Impl::Span{entry_, start_, end});
}

}  // namespace gpuwarden::profile
