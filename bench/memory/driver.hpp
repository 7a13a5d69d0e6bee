// SPDX-License-Identifier: Apache-2.0
// What a benchmark's device is asked: calls counted by kind and, where told so, paid for at the simulated CUDA driver's
// prices (sim/cuda/clock.cpp has their sources); and how far each stream's work has come.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>

#include "gpuwarden/memory/upstream.hpp"
#include "sim/cuda/clock.hpp"

namespace gpuwarden::bench {

enum class Call : std::uint8_t {
  mem_alloc,
  mem_free,
  mem_create,
  mem_map,
  mem_set_access,
  mem_unmap,
  mem_release,
  event_record,
  event_query,
  stream_wait_event,
  synchronize,
};
inline constexpr std::size_t kCalls = 11;

struct CallCounts {
  std::array<std::uint64_t, kCalls> of{};
  double nanoseconds = 0;  ///< what they cost at the published prices, whether that was paid or not

  std::uint64_t operator[](Call call) const { return of.at(static_cast<std::size_t>(call)); }
  /// All but events, queries and waits.
  std::uint64_t memory() const;
  std::uint64_t all() const;
};

using cuda::server::Moment;

/// Events are moments: 0 is over. Safe to use from several threads; counts are exact only without races, which is so
/// for whoever calls under a lock of his own.
class Driver {
 public:
  /// `price_factor` 0: calls cost nothing; 1: as published.
  explicit Driver(double price_factor = 0) { prices_.set_factor(price_factor); }

  /// `times` calls about `bytes` each, in so many pieces of memory.
  void call(Call which, std::uint64_t bytes = 0, std::uint64_t times = 1, std::uint64_t pieces = 1);
  /// Memory in pieces of `piece` bytes is mapped: a call for each of them, and one that opens them all to the device.
  void call_map(std::uint64_t piece, std::uint64_t pieces) {
    call(Call::mem_map, piece, pieces);
    call(Call::mem_set_access, piece * pieces, 1, pieces);
  }
  /// The same with pieces of different sizes, which are remembered.
  void call_map(memory::DeviceAddress address, std::span<const memory::PageHandle> pieces);
  /// One call unmaps a range of such pieces.
  void call_unmap(memory::DeviceAddress address, Bytes size);

  /// Work of that long behind what `stream` has to do already.
  void submit(std::uint64_t stream, std::int64_t nanoseconds);
  /// The end of all work submitted to the stream so far.
  Moment record(std::uint64_t stream);
  bool is_done(Moment event);
  void wait(std::uint64_t stream, Moment event);
  /// Keeps the caller until then.
  void synchronize(Moment event);

  CallCounts counts() const;

 private:
  cuda::server::Latencies prices_;
  cuda::server::DeviceClock clock_;
  struct Sums {
    std::atomic<std::uint64_t> calls = 0;
    std::atomic<std::uint64_t> pieces = 0;
    std::atomic<std::uint64_t> bytes = 0;
  };

  std::array<Sums, kCalls> sums_{};
  std::atomic<bool> has_work_ = false;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Moment> busy_until_;
  std::set<std::uint64_t> mapped_;  ///< the first page of address space of each piece that is mapped
};

}  // namespace gpuwarden::bench
