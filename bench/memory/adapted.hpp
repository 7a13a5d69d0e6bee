// SPDX-License-Identifier: Apache-2.0
// Makes a Contestant of anything with allocate(Slot&, size, stream), free(Slot&, stream), footprint() and driver().
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "memory/contestant.hpp"

namespace gpuwarden::bench {

template <class Allocator>
class Adapted final : public Contestant {
 public:
  template <class... Arguments>
  explicit Adapted(Arguments&&... arguments) : allocator_(std::forward<Arguments>(arguments)...) {}

  void play(std::span<const Operation> operations, std::span<Slot> slots) override {
    for (const Operation& operation : operations) run(operation, slots);
  }

  void play_timed(std::span<const Operation> operations, std::span<Slot> slots,
                  std::span<std::uint32_t> nanoseconds) override {
    auto before = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      run(operations[i], slots);
      const auto after = std::chrono::steady_clock::now();
      nanoseconds[i] = static_cast<std::uint32_t>(
          std::min<std::int64_t>((after - before).count(), std::numeric_limits<std::uint32_t>::max()));
      before = after;
    }
  }

  void allocate(Slot& slot, std::uint64_t size, std::uint32_t stream) override {
    allocator_.allocate(slot, size, stream);
  }
  void free(Slot& slot, std::uint32_t stream) override { allocator_.free(slot, stream); }

  Footprint footprint() override { return allocator_.footprint(); }
  Driver* driver() override { return allocator_.driver(); }
  std::string check() override {
    if constexpr (requires { allocator_.check(); }) return allocator_.check();
    return {};
  }

 private:
  void run(const Operation& operation, std::span<Slot> slots) {
    Slot& slot = slots[operation.slot];
    if (operation.size != 0) {
      allocator_.allocate(slot, operation.size, operation.stream);
    } else {
      allocator_.free(slot, operation.stream);
    }
  }

  Allocator allocator_;
};

}  // namespace gpuwarden::bench
