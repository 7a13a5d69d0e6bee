// SPDX-License-Identifier: Apache-2.0
// Where a pool gets its memory from: address space and physical pages apart, as the CUDA driver's virtual memory
// management gives them, and events that tell how far a stream's work has come.
#pragma once

#include <span>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

/// What the device has; `free` counts what other processes hold, too.
struct DeviceMemory {
  Bytes total;
  Bytes free;
};

/// The pages of so many pieces.
inline std::uint64_t pages_in(std::span<const PageHandle> pieces) {
  std::uint64_t pages = 0;
  for (const PageHandle& piece : pieces) pages += piece.pages;
  return pages;
}

/// One device's memory. Calls may come from several threads. ErrorCode::unsatisfied means out of memory;
/// ErrorCode::unavailable means that the context is gone, and no later call will succeed.
class Upstream {
 public:
  Upstream() = default;
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;
  virtual ~Upstream() = default;

  /// Address space without memory behind it, aligned to kPage; `size` is a multiple of kPage.
  virtual Result<DeviceAddress> reserve(Bytes size) = 0;
  /// Gives back what reserve() gave, whole; nothing may be mapped in it.
  virtual Result<void> release(DeviceAddress address, Bytes size) = 0;

  /// Pieces of physical memory, mapped nowhere, one for each handle, which says how many pages it is to have. All or
  /// nothing.
  virtual Result<void> create(std::span<PageHandle> pages) = 0;
  /// Gives back pieces that are mapped nowhere. All or nothing.
  virtual Result<void> destroy(std::span<const PageHandle> pages) = 0;
  /// Puts pieces behind `address`, one after the other, readable and writable. All or nothing.
  virtual Result<void> map(DeviceAddress address, std::span<const PageHandle> pages) = 0;
  /// Takes the pieces behind [address, address + size) away; all are mapped, and lie in it whole. All or nothing.
  virtual Result<void> unmap(DeviceAddress address, Bytes size) = 0;

  /// Whether a pool may serve this stream; asked when it first meets it, behind its lock. Its own error is passed on.
  virtual Result<void> accepts(StreamId stream) {
    static_cast<void>(stream);
    return {};
  }

  /// An event behind all work submitted to `stream` so far.
  virtual Result<EventHandle> record(StreamId stream) = 0;
  /// Whether the work before the event is done.
  virtual Result<bool> is_done(EventHandle event) = 0;
  /// Makes later work of `stream` wait for the event, without blocking the caller.
  virtual Result<void> wait(StreamId stream, EventHandle event) = 0;
  /// Blocks until the work before the event is done.
  virtual Result<void> synchronize(EventHandle event) = 0;
  /// Gives an event back.
  virtual Result<void> forget(EventHandle event) = 0;

  /// Whether the stream is being captured into a graph: then the pool neither records nor waits there. What it was told
  /// of with Pool::begin_capture() keeps it from asking for events, blocking and unmapping on all streams, too; of
  /// other captures it knows only what this says. create() and map() may be called at any time (a driver allows them in
  /// the capture mode "relaxed").
  virtual bool is_capturing(StreamId stream) {
    static_cast<void>(stream);
    return false;
  }
  /// Copies on a stream, without blocking; source and target do not overlap. Needed for moving buffers only.
  virtual Result<void> copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) {
    static_cast<void>(to), static_cast<void>(from), static_cast<void>(size), static_cast<void>(stream);
    return fail(ErrorCode::failed, "this upstream cannot copy memory", "hand a copy function to MovableMemory");
  }

  /// What the device has now.
  virtual Result<DeviceMemory> memory() = 0;
};

}  // namespace gpuwarden::memory
