// SPDX-License-Identifier: Apache-2.0
// What a profiler keeps. Locks: a shard's, an entry's, the log's, and one each for instruments, device times, spans and
// readings. Within that of readings those of spans and entries are taken, else none within another.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpuwarden/profile/profiler.hpp"
#include "profile/log.hpp"

namespace gpuwarden::profile {

struct Profiler::Entry {
  std::string name;
  std::mutex mutex;
  Distribution wall;
  Distribution device;
  std::chrono::nanoseconds self{};
  std::uint64_t told = 0;
  std::optional<double> joules;
  double utilization_seconds = 0;  ///< percent times seconds
  double utilization_known = 0;    ///< seconds
  std::optional<Bytes> memory_peak;
  std::optional<std::int64_t> memory_change;

  void forget();
  Operation operation();
};

struct Profiler::Instruments {
  std::shared_ptr<DeviceTimer> device;
  std::shared_ptr<Ranges> ranges;
  std::function<std::optional<Bytes>()> memory;
};

struct Profiler::Impl {
  explicit Impl(ProfilerOptions options);

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::unique_ptr<Entry>, TextHash, std::equal_to<>> entries;
  };
  /// A device time that the device has not reached when the scope ended.
  struct Timing {
    Entry* entry = nullptr;
    std::uint64_t serial = 0;
    std::shared_ptr<DeviceTimer> timer;
    DeviceTimer::Mark start = 0;
    DeviceTimer::Mark end = 0;
  };
  /// A run of which the readings have yet to tell.
  struct Span {
    Entry* entry = nullptr;
    Clock::SteadyTime start{};
    Clock::SteadyTime end{};
  };

  Entry& entry_of(std::string_view name);
  /// Changes one of the instruments; scopes that are open keep what they began with.
  template <class Change>
  void change_instruments(Change change);
  std::shared_ptr<const Instruments> current_instruments();
  void expect(const Timing& timing);
  void expect(const Span& span);
  /// Notes the device times that are known, of all timings or of the oldest ones.
  void settle(bool wait);
  bool settle(const Timing& timing, bool wait);
  void tell(const Span& span);
  template <class Action>
  void for_each_entry(Action action);

  Clock& clock;
  const std::size_t max_names;
  const std::size_t max_spans;
  const Clock::SteadyTime steady_origin;
  const Clock::WallTime wall_origin;
  std::array<Shard, 16> shards;
  std::atomic<std::size_t> names{0};

  std::mutex instruments_mutex;
  std::shared_ptr<const Instruments> instruments;

  Log log;
  std::mutex timings_mutex;
  std::deque<Timing> timings;
  std::mutex spans_mutex;
  std::deque<Span> spans;
  std::mutex readings_mutex;
  GpuReadings readings;
  std::atomic<bool> heard{false};
};

template <class Change>
void Profiler::Impl::change_instruments(Change change) {
  std::shared_ptr<const Instruments> before;  // ends without the lock
  const std::scoped_lock lock(instruments_mutex);
  auto changed = std::make_shared<Instruments>(*instruments);
  change(*changed);
  before = std::exchange(instruments, std::move(changed));
}

template <class Action>
void Profiler::Impl::for_each_entry(Action action) {
  for (auto& shard : shards) {
    std::vector<Entry*> entries;
    {
      const std::scoped_lock lock(shard.mutex);
      for (const auto& [name, entry] : shard.entries) entries.push_back(entry.get());
    }
    for (Entry* const entry : entries) {
      const std::scoped_lock lock(entry->mutex);
      action(*entry);
    }
  }
}

}  // namespace gpuwarden::profile
