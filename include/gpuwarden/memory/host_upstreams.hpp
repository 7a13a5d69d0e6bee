// SPDX-License-Identifier: Apache-2.0
// Upstreams that need no GPU: arithmetic on addresses for benchmarks and model tests, and real mappings of a memory
// file for tests that touch what they were given.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/memory/upstream.hpp"

namespace gpuwarden::memory {

/// A device of `capacity` bytes on which nothing is stored: addresses and handles are numbers, and every stream's work
/// is done at once. Safe to use from several threads.
class ArithmeticUpstream final : public Upstream {
 public:
  explicit ArithmeticUpstream(Bytes capacity) : capacity_(capacity) {}

  Result<DeviceAddress> reserve(Bytes size) override;
  Result<void> release(DeviceAddress address, Bytes size) override;
  Result<void> create(std::span<PageHandle> pages) override;
  Result<void> destroy(std::span<const PageHandle> pages) override;
  Result<void> map(DeviceAddress address, std::span<const PageHandle> pages) override;
  Result<void> unmap(DeviceAddress address, Bytes size) override;
  Result<EventHandle> record(StreamId stream) override;
  Result<bool> is_done(EventHandle event) override;
  Result<void> wait(StreamId stream, EventHandle event) override;
  Result<void> synchronize(EventHandle event) override;
  Result<void> forget(EventHandle event) override;
  Result<void> copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) override;
  Result<DeviceMemory> memory() override;

 private:
  std::mutex mutex_;
  Bytes capacity_;
  Bytes used_;
  std::uint64_t next_address_ = std::uint64_t{1} << 40U;
  std::uint64_t next_handle_ = 0;
};

/// A device of `capacity` bytes that are pages of a memory file (memfd), mapped into this process: contents move with
/// their page, and a touch of unmapped address space faults. Work is done at once. Safe to use from several threads.
class MemfdUpstream final : public Upstream {
 public:
  static Result<std::unique_ptr<MemfdUpstream>> open(Bytes capacity);

  Result<DeviceAddress> reserve(Bytes size) override;
  Result<void> release(DeviceAddress address, Bytes size) override;
  Result<void> create(std::span<PageHandle> pages) override;
  Result<void> destroy(std::span<const PageHandle> pages) override;
  Result<void> map(DeviceAddress address, std::span<const PageHandle> pages) override;
  Result<void> unmap(DeviceAddress address, Bytes size) override;
  Result<EventHandle> record(StreamId stream) override;
  Result<bool> is_done(EventHandle event) override;
  Result<void> wait(StreamId stream, EventHandle event) override;
  Result<void> synchronize(EventHandle event) override;
  Result<void> forget(EventHandle event) override;
  Result<void> copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) override;
  Result<DeviceMemory> memory() override;

 private:
  MemfdUpstream(UniqueFd file, Bytes capacity) : file_(std::move(file)), capacity_(capacity) {}

  std::mutex mutex_;
  UniqueFd file_;
  Bytes capacity_;
  std::uint64_t next_page_ = 0;
  std::vector<std::uint64_t> free_pages_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> pieces_;  ///< the pages of each
};

}  // namespace gpuwarden::memory
