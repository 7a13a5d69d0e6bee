// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "gpuwarden/base/thread_time.hpp"
#include "gpuwarden/memory/host_upstreams.hpp"
#include "memtrace/out_of_memory.hpp"

namespace gpuwarden::memtrace {
namespace {

using memory::DeviceAddress;
using memory::Pool;
using memory::StreamId;

/// A new pool on a new device.
struct Bench {
  memory::ArithmeticUpstream device;
  std::unique_ptr<Pool> pool;
  std::vector<DeviceAddress> slots;

  explicit Bench(Bytes memory) : device(memory) {}

  Result<void> open(const Script& script, const ReplayOptions& options) {
    GPUWARDEN_TRY(pool, Pool::create(device, {.strategy = options.strategy}));
    slots.resize(script.slots);
    return {};
  }
};

/// The loop that is timed. False: an operation failed.
bool run(const std::vector<Operation>& operations, Pool& pool, DeviceAddress* slots) {
  for (const Operation& operation : operations) {
    if (operation.size != 0) {
      const auto address = pool.allocate(Bytes(operation.size), StreamId{operation.stream});
      if (!address) return false;
      slots[operation.slot] = *address;
    } else {
      if (!pool.deallocate(slots[operation.slot], StreamId{operation.stream})) return false;
    }
  }
  return true;
}

using Nanoseconds = std::chrono::duration<double, std::nano>;

/// A program that repeats itself is known to its pool from the end of the second step on; the first that is like all
/// later ones is the fourth.
constexpr unsigned kSteps = 4;
/// Longer scripts show in their second run what there is to see.
constexpr std::uint64_t kLong = 2'000'000;

/// Nothing if the pool ran out of memory.
std::optional<Nanoseconds> time(const Script& script, const std::vector<std::uint32_t>& order, Bench& bench) {
  bool fine = true;
  const Nanoseconds start = thread_time();
  for (const std::uint32_t part : order) fine &= run(script.parts[part], *bench.pool, bench.slots.data());
  const Nanoseconds taken = thread_time() - start;
  return fine ? std::optional(taken) : std::nullopt;
}

/// The best mean of those over stretches long enough to be told from zero: a clock of CPU time may stand still over a
/// short script.
class Best {
 public:
  void add(Nanoseconds taken, std::uint64_t operations) {
    taken_ += taken;
    operations_ += operations;
    if (taken_ < kLongEnough) return;
    best_ = std::min(best_.value_or(mean()), mean());
    taken_ = Nanoseconds(0);
    operations_ = 0;
  }
  /// For one operation; nothing if nothing was added.
  std::optional<double> nanoseconds() const { return best_ || operations_ == 0 ? best_ : std::optional(mean()); }

 private:
  static constexpr Nanoseconds kLongEnough = std::chrono::microseconds(20);

  double mean() const { return taken_.count() / static_cast<double>(operations_); }

  Nanoseconds taken_{0};  ///< since the last whole stretch
  std::uint64_t operations_ = 0;
  std::optional<double> best_;
};

/// Times new pools until there were enough of them.
Result<void> time_all(const Script& script, const ReplayOptions& options, Replay& result) {
  const Nanoseconds enough = std::chrono::milliseconds(options.timed_ms);
  std::uint64_t operations = 0;
  for (const std::uint32_t part : script.again) operations += script.parts[part].size();
  const unsigned steps = script.operations > kLong ? 2 : kSteps;
  Best first;
  Best later;
  Nanoseconds all(0);
  for (; result.rounds < options.rounds || (result.rounds > 0 && all < enough); ++result.rounds) {
    Bench bench(options.device_memory);
    GPUWARDEN_CHECK(bench.open(script, options));
    auto taken = time(script, script.order, bench);
    if (!taken) break;
    first.add(*taken, script.operations);
    all += *taken;
    for (unsigned step = 1; taken && step < steps; ++step) {
      taken = time(script, script.again, bench);
      all += taken.value_or(Nanoseconds(0));
    }
    // What fitted once may not fit again.
    if (taken) later.add(*taken, operations);
  }
  result.first_nanoseconds = first.nanoseconds();
  result.nanoseconds = later.nanoseconds();
  return {};
}

/// Runs the script once and looks at the pool meanwhile.
class Observation {
 public:
  Observation(const Script& script, const ReplayOptions& options, Replay& result)
      : script_(script), options_(options), result_(result), bench_(options.device_memory) {}

  Result<void> run() {
    GPUWARDEN_CHECK(bench_.open(script_, options_));
    sizes_.resize(script_.slots);
    every_ = std::max<std::uint64_t>(1, script_.operations / std::max(1U, options_.samples));
    bool fine = true;
    for (std::size_t step = 0; fine && step < script_.order.size(); ++step) {
      const std::uint64_t before = bench_.pool->status().upstream_calls;
      fine = run_part(script_.parts[script_.order[step]]);
      result_.driver_calls = bench_.pool->status().upstream_calls;
      result_.driver_calls_last_step = result_.driver_calls - before;
    }
    if (broken_) return std::unexpected(*std::move(broken_));
    result_.at_end = bench_.pool->status();
    result_.peak_reserved = result_.at_end.peak_reserved;
    if (!fine) {
      result_.peak_live = result_.at_end.peak_live;
      result_.peak_requested = peak_requested_;
      result_.at_peak = result_.at_end;
    }
    return bench_.pool->check();
  }

 private:
  bool run_part(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      if (!run_one(operation)) return false;
      ++result_.operations;
      if (result_.operations == script_.peak_operation) result_.at_peak = bench_.pool->status();
      if (result_.operations % every_ == 0 || result_.operations == script_.peak_operation) sample();
    }
    return true;
  }

  bool run_one(const Operation& operation) {
    DeviceAddress& slot = bench_.slots[operation.slot];
    std::uint64_t& size = sizes_[operation.slot];
    requested_ += operation.size - size;
    if (operation.size == 0) {
      size = 0;
      const auto freed = bench_.pool->deallocate(slot, StreamId{operation.stream});
      if (!freed) broken_ = freed.error();
      return freed.has_value();
    }
    const auto address = bench_.pool->allocate(Bytes(operation.size), StreamId{operation.stream});
    if (!address && !is_out_of_memory(address.error())) broken_ = address.error();
    if (!address) {
      result_.failure = ReplayFailure{result_.operations, Bytes(operation.size), address.error()};
      return false;
    }
    slot = *address;
    size = operation.size;
    peak_requested_ = std::max(peak_requested_, Bytes(requested_));
    return true;
  }

  void sample() {
    const memory::PoolStatus now = bench_.pool->status();
    result_.samples.push_back({.operation = result_.operations,
                               .live = now.live,
                               .reserved = now.reserved,
                               .free = now.reserved - now.live,
                               .largest_free = now.largest_free});
  }

  const Script& script_;
  const ReplayOptions& options_;
  Replay& result_;
  Bench bench_;
  std::vector<std::uint64_t> sizes_;
  std::uint64_t every_ = 1;
  std::uint64_t requested_ = 0;
  Bytes peak_requested_;
  std::optional<Error> broken_;  ///< not for want of memory
};

}  // namespace

double external_fragmentation(const memory::PoolStatus& status) {
  return memory::external_fragmentation(status.free, status.largest_free);
}

double internal_fragmentation(const memory::PoolStatus& status) {
  return status.live.value == 0 ? 0 : 1 - ratio(status.requested, status.live);
}

Result<Replay> replay(const Script& script, const ReplayOptions& options) {
  Replay result;
  const memory::Strategy& strategy = options.strategy != nullptr ? *options.strategy : memory::strategies().front();
  result.strategy = strategy.name;
  result.peak_live = script.peak_live;
  result.peak_requested = script.peak_requested;
  GPUWARDEN_CHECK(check_streams(script));
  GPUWARDEN_CHECK(Observation(script, options, result).run());
  if (result.failure || script.operations == 0) return result;
  GPUWARDEN_CHECK(time_all(script, options, result));
  return result;
}

}  // namespace gpuwarden::memtrace
