// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "memtrace/observing_upstream.hpp"

namespace gpuwarden::memtrace {
namespace {

using memory::DeviceAddress;
using memory::StreamId;

/// Between two steps on the clock of a recording.
constexpr std::int64_t kPause = 1000;

class Recorder {
 public:
  Recorder(const Trace& trace, const Script& script, const ReplayOptions& options)
      : trace_(trace),
        script_(script),
        options_(options),
        device_(options.device_memory),
        upstream_(device_,
                  [this](bool mapped, DeviceAddress address, Bytes size) { note_pages(mapped, address, size); }),
        slots_(script.slots) {}

  Result<Recording> run() {
    GPUWARDEN_TRY(pool_, memory::Pool::create(upstream_, {.strategy = options_.strategy}));
    recording_.device_memory = options_.device_memory;
    recording_.was_before.assign(trace_.blocks, false);
    for (const Event& event : trace_.before) recording_.was_before[event.block] = true;
    recording_.events.reserve(script_.operations);
    bool fine = true;
    for (std::size_t step = 0; fine && step < script_.order.size(); ++step) {
      recording_.steps.push_back(recording_.operations);
      GPUWARDEN_TRY(fine, run_part(script_.parts[script_.order[step]]));
    }
    // What the pool tells of streams are positions in the trace's table.
    recording_.segments = pool_->layout();
    for (memory::SegmentLayout& segment : recording_.segments)
      segment.stream = StreamId{trace_.streams[segment.stream.value]};
    return std::move(recording_);
  }

 private:
  struct Slot {
    DeviceAddress address;
    std::uint64_t size = 0;
    std::uint32_t block = 0;
  };

  /// The trace's events are the last operations of a part; what stands before them happens in no time.
  Result<bool> run_part(const std::vector<Operation>& operations) {
    const std::size_t extra = operations.size() - trace_.events.size();
    const std::int64_t begin = step_begin_;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      std::uint32_t block = slots_[operation.slot].block;
      if (i >= extra) {
        const Event& event = trace_.events[i - extra];
        time_ = std::max(time_, begin + event.time_us);
        block = event.block;
      } else if (operation.size != 0) {
        // Slots of blocks that were live before are their positions.
        block = trace_.before[operation.slot].block;
      }
      GPUWARDEN_TRY(const bool fine, run_one(operation, block));
      if (!fine) return false;
      ++recording_.operations;
    }
    step_begin_ = time_ + kPause;
    time_ = step_begin_;
    return true;
  }

  Result<bool> run_one(const Operation& operation, std::uint32_t block) {
    Slot& slot = slots_[operation.slot];
    stream_ = operation.stream;
    if (operation.size == 0) {
      GPUWARDEN_CHECK(pool_->deallocate(slot.address, StreamId{operation.stream}));
      note(Happening::freed, slot.address, slot.size, slot.block);
      return true;
    }
    const auto address = pool_->allocate(Bytes(operation.size), StreamId{operation.stream});
    // A request that is larger than the device is refused as such.
    if (!address) {
      note(Happening::out_of_memory, DeviceAddress{device_free()}, operation.size, block);
      return false;
    }
    slot = {*address, operation.size, block};
    note(Happening::allocated, *address, operation.size, block);
    return true;
  }

  std::uint64_t device_free() {
    const auto memory = device_.memory();
    return memory ? memory->free.value : 0;
  }

  void note(Happening what, DeviceAddress address, std::uint64_t size, std::uint32_t block) {
    recording_.events.push_back({.address = address.value,
                                 .size = size,
                                 .stream = trace_.streams[stream_],
                                 .time_us = time_,
                                 .operation = recording_.operations,
                                 .block = block,
                                 .what = what});
  }

  /// Pages are mapped for the stream that asks; when they go, it may be for another one.
  void note_pages(bool mapped, DeviceAddress address, Bytes size) {
    const std::uint32_t asking = stream_;
    for (std::uint64_t at = address.value; at < address.value + size.value; at += memory::kPage.value) {
      if (mapped) {
        stream_of_page_[at] = asking;
      } else {
        stream_ = stream_of_page_[at];
        stream_of_page_.erase(at);
      }
    }
    note(mapped ? Happening::mapped : Happening::unmapped, address, size.value, 0);
    stream_ = asking;
  }

  const Trace& trace_;
  const Script& script_;
  const ReplayOptions& options_;
  memory::ArithmeticUpstream device_;
  ObservingUpstream upstream_;
  Recording recording_;
  std::vector<Slot> slots_;
  std::unordered_map<std::uint64_t, std::uint32_t> stream_of_page_;
  std::uint32_t stream_ = 0;
  std::int64_t time_ = 0;
  std::int64_t step_begin_ = 0;
  // The last member, because its end unmaps pages, which is noted.
  std::unique_ptr<memory::Pool> pool_;
};

}  // namespace

Result<Recording> record(const Trace& trace, const Script& script, const ReplayOptions& options) {
  constexpr std::uint64_t kMost = 50'000'000;
  if (script.operations > kMost)
    return fail(ErrorCode::invalid_argument, fmt::format("{} operations are too many to note", script.operations),
                "fewer steps show the same");
  return Recorder(trace, script, options).run();
}

}  // namespace gpuwarden::memtrace
