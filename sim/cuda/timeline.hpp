// SPDX-License-Identifier: Apache-2.0
// Streams and events on a timeline. What work does to memory is done when the call is made, which is one of the orders
// that streams allow; the time it takes passes on the timeline of its stream: work begins when the stream's earlier
// work, and all that the stream waits for, has ended.
#pragma once

#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "nvidia/cuda_abi.hpp"
#include "sim/cuda/clock.hpp"

namespace gpuwarden::cuda::server {

/// How far a stream knows other streams to have come: their ids, and the number of their last work known to be over
/// before this stream goes on.
using Knowledge = std::map<std::uint64_t, std::uint64_t>;
void learn(Knowledge& knowledge, const Knowledge& more);

struct StreamState {
  std::uint64_t id = 0;
  std::uintptr_t context = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  Moment busy_until = 0;
  std::uint64_t work = 0;  ///< number of the newest work
  Knowledge known;

  bool blocks_with_legacy() const { return !legacy && (flags & kStreamNonBlocking) == 0; }
};

struct EventState {
  std::uintptr_t context = 0;
  unsigned flags = 0;
  bool recorded = false;
  Moment at = 0;
  Knowledge known;
};

/// The streams of one context. The legacy default stream and all blocking streams wait for each other.
class Timeline {
 public:
  explicit Timeline(std::uintptr_t context);

  StreamState& add(unsigned flags, int priority);
  void remove(std::uint64_t id);
  StreamState& legacy() { return *find(legacy_id_); }
  StreamState& of_thread();
  StreamState* find(std::uint64_t id);

  /// Puts work on a stream; the moment when it ends.
  Moment enqueue(StreamState& stream, Moment now, std::int64_t nanoseconds);
  void record(EventState& event, StreamState& stream, Moment now);
  static void wait(StreamState& stream, const EventState& event);
  /// When all that is on a stream (and, for the legacy stream, on those that wait for it) has ended.
  Moment end_of(const StreamState& stream) const;
  /// When everything has ended.
  Moment end() const;

 private:
  std::uintptr_t context_;
  std::uint64_t legacy_id_ = 0;
  std::map<std::uint64_t, StreamState> streams_;
  std::map<std::thread::id, std::uint64_t> of_threads_;
  Moment removed_until_ = 0;  // work of destroyed streams still goes on
};

}  // namespace gpuwarden::cuda::server
