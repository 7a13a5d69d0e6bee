// SPDX-License-Identifier: Apache-2.0
// Memory of captured graphs: lanes of their own, from which nothing is taken away and whose streams get no events.
#include <fmt/format.h>

#include <algorithm>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

std::unexpected<Error> no_such(CaptureId id) {
  return fail(ErrorCode::invalid_argument, fmt::format("the pool has no capture {}", id.value),
              "it was released before, or belongs to another pool");
}

}  // namespace

Capture* Pool::Core::capture_of(CaptureId id) {
  const auto found = std::ranges::find(captures_, id, &Capture::id);
  return found == captures_.end() ? nullptr : &*found;
}

void Pool::Core::route(Lane& from, Lane& to) {
  unsigned at = slot_of(from.stream);
  while (slots_[at].load(std::memory_order_relaxed) != &from) at = (at + 1) % kSlots;
  slots_[at].store(&to, std::memory_order_release);
}

Result<Lane*> Pool::Core::private_lane(Capture& capture, Lane& usual) {
  const StreamId stream = usual.stream;
  const auto own = std::ranges::find(capture.lanes, stream, [](const Lane* lane) { return lane->stream; });
  if (own != capture.lanes.end()) return *own;
  // The lane of a graph that was released serves the next one that is captured on its stream.
  Lane* lane = nullptr;
  for_each_lane([&](Lane& old) {
    if (old.is_retired && old.stream == stream) lane = &old;
  });
  if (lane != nullptr) {
    // A replay may run anywhere: it cannot be made to wait for what happened to this memory before.
    block_until_done(*lane);
    if (lane->done + 1 < lane->epoch.load()) lane = nullptr;
  }
  if (lane == nullptr) {
    GPUWARDEN_TRY(lane, add_lane(stream));
    lane->usual = &usual;
  }
  lane->is_retired = false;
  lane->is_private = true;
  capture.lanes.push_back(lane);
  return lane;
}

Result<void> Pool::Core::add_to_capture(Capture& capture, StreamId stream) {
  Lane* shared = lane_of(stream);
  if (shared == nullptr) {
    GPUWARDEN_TRY(shared, make_lane(stream));
  }
  if (shared->is_private)
    return fail(ErrorCode::invalid_argument, fmt::format("stream {:#x} is being captured already", stream.value),
                "end that capture first");
  GPUWARDEN_TRY(Lane* const lane, private_lane(capture, *shared));
  {
    const std::lock_guard lock(shared->lock);
    shared->leave_script();
  }
  route(*shared, *lane);
  shared->is_capturing = true;
  lane->is_capturing = true;
  capture.routed.emplace_back(shared, lane);
  captures_underway_ += capture.routed.size() == 1 ? 1 : 0;
  return {};
}

Result<CaptureId> Pool::Core::begin_capture(StreamId stream) {
  const std::lock_guard slow(slow_);
  Capture capture{.id = {++last_capture_}, .lanes = {}, .routed = {}};
  GPUWARDEN_CHECK(add_to_capture(capture, stream));
  captures_.push_back(std::move(capture));
  return captures_.back().id;
}

Result<void> Pool::Core::join_capture(CaptureId id, StreamId stream) {
  const std::lock_guard slow(slow_);
  Capture* const capture = capture_of(id);
  if (capture == nullptr) return no_such(id);
  return add_to_capture(*capture, stream);
}

Result<void> Pool::Core::end_capture(CaptureId id) {
  const std::lock_guard slow(slow_);
  Capture* const capture = capture_of(id);
  if (capture == nullptr) return no_such(id);
  if (capture->routed.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("capture {} has ended already", id.value));
  for (const auto& [shared, lane] : capture->routed) {
    shared->is_capturing = false;
    lane->is_capturing = false;
    route(*lane, *shared);
  }
  capture->routed.clear();
  --captures_underway_;
  return {};
}

Result<void> Pool::Core::release_capture(CaptureId id, StreamId replayed_on) {
  const std::lock_guard slow(slow_);
  Capture* const capture = capture_of(id);
  if (capture == nullptr) return no_such(id);
  if (!capture->routed.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("capture {} has not ended", id.value), "end it first");
  Lane* replaying = lane_of(replayed_on);
  if (replaying == nullptr) {
    GPUWARDEN_TRY(replaying, make_lane(replayed_on));
  }
  // The streams of the capture wait for the replays, so that an event behind them covers both.
  for (Lane* const lane : capture->lanes) {
    if (replaying->stream == lane->stream) continue;
    if (!wait_for(*lane, *replaying, replaying->epoch.load(std::memory_order_acquire)))
      return fail(ErrorCode::unsatisfied, "a stream cannot wait for the replays of a graph: its memory stays kept",
                  "release it again once no capture is under way");
  }
  for (Lane* const lane : capture->lanes) {
    lane->is_private = false;
    lane->is_retired = true;
  }
  std::erase_if(captures_, [&](const Capture& other) { return other.id == id; });
  return {};
}

}  // namespace gpuwarden::memory
