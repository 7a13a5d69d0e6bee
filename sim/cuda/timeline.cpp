// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/timeline.hpp"

#include <algorithm>
#include <atomic>

namespace gpuwarden::cuda::server {
namespace {

/// Stream ids are unique in the process, as cuStreamGetId promises. 1 and 2 are the names of the default streams.
std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last = 15;
  return ++last;
}

}  // namespace

void learn(Knowledge& knowledge, const Knowledge& more) {
  for (const auto& [stream, work] : more) {
    auto& known = knowledge[stream];
    known = std::max(known, work);
  }
}

Timeline::Timeline(std::uintptr_t context) : context_(context) {
  StreamState& legacy = add(0, 0);
  legacy.legacy = true;
  legacy_id_ = legacy.id;
}

StreamState& Timeline::add(unsigned flags, int priority) {
  const std::uint64_t id = next_id();
  return streams_[id] = StreamState{.id = id, .context = context_, .flags = flags, .priority = priority};
}

void Timeline::remove(std::uint64_t id) {
  if (const StreamState* stream = find(id)) removed_until_ = std::max(removed_until_, stream->busy_until);
  streams_.erase(id);
}

StreamState& Timeline::of_thread() {
  const auto [found, is_new] = of_threads_.try_emplace(std::this_thread::get_id(), 0);
  if (is_new) found->second = add(0, 0).id;
  return streams_[found->second];
}

StreamState* Timeline::find(std::uint64_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

Moment Timeline::enqueue(StreamState& stream, Moment now, std::int64_t nanoseconds) {
  Moment begin = std::max(now, stream.busy_until);
  const auto follow = [&](const StreamState& other) {
    begin = std::max(begin, other.busy_until);
    learn(stream.known, other.known);
    stream.known[other.id] = other.work;
  };
  if (stream.blocks_with_legacy()) follow(legacy());
  if (stream.legacy) {
    for (const auto& [id, other] : streams_) {
      if (other.blocks_with_legacy()) follow(other);
    }
  }
  ++stream.work;
  return stream.busy_until = begin + nanoseconds;
}

void Timeline::record(EventState& event, StreamState& stream, Moment now) {
  event.at = enqueue(stream, now, 0);
  event.recorded = true;
  event.known = stream.known;
  event.known[stream.id] = stream.work;
}

void Timeline::wait(StreamState& stream, const EventState& event) {
  if (!event.recorded) return;
  stream.busy_until = std::max(stream.busy_until, event.at);
  learn(stream.known, event.known);
}

Moment Timeline::end_of(const StreamState& stream) const {
  if (!stream.legacy) return stream.busy_until;
  Moment end = stream.busy_until;
  for (const auto& [id, other] : streams_) {
    if (other.blocks_with_legacy()) end = std::max(end, other.busy_until);
  }
  return end;
}

Moment Timeline::end() const {
  Moment end = removed_until_;
  for (const auto& [id, stream] : streams_) end = std::max(end, stream.busy_until);
  return end;
}

}  // namespace gpuwarden::cuda::server
