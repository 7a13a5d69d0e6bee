// SPDX-License-Identifier: Apache-2.0
// An upstream that counts what the CUDA driver would be asked, lets the caller pay for it, and whose events are done
// when the simulated work before them is. Pages are those of an ArithmeticUpstream.
#pragma once

#include <mutex>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "memory/driver.hpp"

namespace gpuwarden::bench {

/// Counts as a driver without batches does: a creation and a mapping for each piece, one change of access and one
/// unmapping for each range. Safe to use from several threads.
class MeteredUpstream final : public memory::Upstream {
 public:
  MeteredUpstream(Bytes capacity, double price_factor) : driver(price_factor), pages_(capacity) {}

  Result<memory::DeviceAddress> reserve(Bytes size) override { return pages_.reserve(size); }
  Result<void> release(memory::DeviceAddress address, Bytes size) override { return pages_.release(address, size); }
  Result<void> create(std::span<memory::PageHandle> pages) override;
  Result<void> destroy(std::span<const memory::PageHandle> pages) override;
  Result<void> map(memory::DeviceAddress address, std::span<const memory::PageHandle> pages) override;
  Result<void> unmap(memory::DeviceAddress address, Bytes size) override;
  Result<memory::EventHandle> record(memory::StreamId stream) override;
  Result<bool> is_done(memory::EventHandle event) override;
  Result<void> wait(memory::StreamId stream, memory::EventHandle event) override;
  Result<void> synchronize(memory::EventHandle event) override;
  Result<void> forget(memory::EventHandle event) override;
  Result<memory::DeviceMemory> memory() override { return pages_.memory(); }

  Driver driver;

 private:
  Moment moment(memory::EventHandle event);

  memory::ArithmeticUpstream pages_;
  std::mutex mutex_;
  std::vector<Moment> events_;
  std::vector<std::uint64_t> unused_events_;
};

}  // namespace gpuwarden::bench
