// SPDX-License-Identifier: Apache-2.0
// The whole pool as a contestant, on any upstream that counts.
#pragma once

#include <bit>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "gpuwarden/memory/pool.hpp"
#include "memory/contestant.hpp"

namespace gpuwarden::bench {

/// `CountingUpstream` has a Driver named `driver`. By handle, or by address.
template <class CountingUpstream, bool kHandles>
class OwnPool {
 public:
  OwnPool(std::unique_ptr<CountingUpstream> upstream, const memory::Strategy& strategy)
      : upstream_(std::move(upstream)), pool_(memory::Pool::create(*upstream_, {.strategy = &strategy}).value()) {}

  void allocate(Slot& slot, std::uint64_t size, std::uint32_t stream) {
    if constexpr (kHandles) {
      const auto block = pool_->allocate_block(Bytes(size), memory::StreamId{stream});
      if (!block) throw OutOfMemory(block.error().message);
      slot = {block->address().value, size, std::bit_cast<std::uint64_t>(*block)};
    } else {
      const auto address = pool_->allocate(Bytes(size), memory::StreamId{stream});
      if (!address) throw OutOfMemory(address.error().message);
      slot.address = address->value;
    }
  }

  void free(Slot& slot, std::uint32_t stream) {
    if constexpr (kHandles) {
      const auto block = std::bit_cast<memory::BlockHandle>(slot.handle);
      if (!pool_->deallocate_block(block, memory::StreamId{stream})) std::abort();
    } else {
      if (!pool_->deallocate(memory::DeviceAddress{slot.address}, memory::StreamId{stream})) std::abort();
    }
  }

  Footprint footprint() {
    const auto status = pool_->status();
    return {status.reserved.value, status.peak_reserved.value, upstream_->driver.counts(), status.metadata.value};
  }

  Driver* driver() { return &upstream_->driver; }

  std::string check() {
    const auto checked = pool_->check();
    return checked ? std::string() : checked.error().message;
  }

 private:
  std::unique_ptr<CountingUpstream> upstream_;
  std::unique_ptr<memory::Pool> pool_;
};

}  // namespace gpuwarden::bench
