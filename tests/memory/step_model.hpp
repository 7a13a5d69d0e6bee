// SPDX-License-Identifier: Apache-2.0
// A training step as a list of operations, and a naive model that runs such steps on a pool and checks each answer.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"

namespace gpuwarden::memory {

/// An allocation of `size` bytes under a number, or (size 0) the free of it.
struct StepOperation {
  std::uint32_t id = 0;
  std::uint64_t size = 0;
};

/// Forward through layers that keep what backward frees in reverse, brief blocks in between, gradients until the end.
/// Sizes of 300 B to 12 MiB by `seed`; nothing is left. About 30 operations a layer.
inline std::vector<StepOperation> training_step(unsigned layers, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 9; ++i) sizes.push_back((300 + random() % 300) << (random() % 15));
  std::vector<StepOperation> step;
  std::vector<std::uint32_t> kept;
  std::vector<std::uint32_t> gradients;
  std::uint32_t next = 0;
  const auto take = [&](std::size_t which) {
    step.push_back({next, sizes[which % sizes.size()]});
    return next++;
  };
  const auto brief = [&](std::size_t which) {
    const std::uint32_t first = take(which);
    const std::uint32_t second = take(which + 1);
    step.push_back({first, 0});
    const std::uint32_t third = take(which + 2);
    step.push_back({third, 0});
    step.push_back({second, 0});
  };
  for (unsigned layer = 0; layer < layers; ++layer) {
    brief(layer % 2);
    for (const std::size_t which : {3U, 4U, 5U}) kept.push_back(take(which));
    brief(2);
  }
  while (!kept.empty()) {
    brief(6);
    if (kept.size() % 3 == 0) gradients.push_back(take(7));
    step.push_back({kept.back(), 0});
    kept.pop_back();
  }
  for (const std::uint32_t id : gradients) step.push_back({id, 0});
  return step;
}

/// The peak of a step's live memory in whole grains.
inline Bytes peak_of(const std::vector<StepOperation>& step) {
  std::map<std::uint32_t, std::uint64_t> live;
  std::uint64_t now = 0;
  std::uint64_t peak = 0;
  for (const auto& [id, size] : step) {
    if (size == 0) now -= live[id];
    live[id] = (size + kGrain.value - 1) / kGrain.value * kGrain.value;
    now += live[id];
    peak = std::max(peak, now);
  }
  return Bytes(peak);
}

class StepModel {
 public:
  StepModel(ModelUpstream& upstream, Pool& pool, StreamId stream, bool handles = false)
      : upstream_(upstream), pool_(pool), stream_(stream), handles_(handles) {}

  void run(const std::vector<StepOperation>& step) {
    for (const StepOperation& operation : step) {
      run(operation);
      if (::testing::Test::HasFailure()) return;
    }
  }

  void run(const StepOperation& operation) {
    if (operation.size != 0) {
      allocate(operation.id, Bytes(operation.size));
    } else {
      free(operation.id);
    }
  }

  /// Whether there was memory for it. Numbers below 2^31 are the step's.
  bool allocate(std::uint32_t id, Bytes size, Bytes alignment = kGrain) {
    BlockHandle handle;
    DeviceAddress address;
    if (handles_ && alignment == kGrain) {
      const auto block = pool_.allocate_block(size, stream_);
      if (!block) return refused(block.error());
      handle = *block;
      address = handle.address();
    } else {
      const auto given = pool_.allocate(size, stream_, alignment);
      if (!given) return refused(given.error());
      address = *given;
    }
    EXPECT_EQ(address.value % alignment.value, 0U);
    const auto next = places_.lower_bound(address.value);
    if (next != places_.end()) {
      EXPECT_LE(address.value + size.value, next->first) << "overlaps the next block";
    }
    if (next != places_.begin()) {
      EXPECT_LE(std::prev(next)->first + std::prev(next)->second, address.value) << "overlaps";
    }
    EXPECT_TRUE(upstream_.is_mapped(address, size));
    EXPECT_FALSE(upstream_.is_busy_for(stream_, address, size)) << "given out while another stream works on it";
    upstream_.submit(stream_, address, size);
    places_[address.value] = size.value;
    live_[id] = {address, size, handle};
    requested_ += size;
    return true;
  }

  /// On another stream it is used there before.
  void free(std::uint32_t id, std::optional<StreamId> elsewhere = std::nullopt) {
    const auto found = live_.find(id);
    if (found == live_.end()) return;  // it was refused
    const Live block = found->second;
    if (elsewhere) {
      upstream_.follow(*elsewhere, stream_);
      upstream_.submit(*elsewhere, block.address, block.size);
    }
    const StreamId stream = elsewhere.value_or(stream_);
    const auto freed = handles_ && block.handle.address().value != 0
                           ? pool_.deallocate_block(block.handle, stream)
                           : pool_.deallocate(block.address, block.size, stream);
    EXPECT_TRUE(freed) << freed.error().message;
    live_.erase(found);
    places_.erase(block.address.value);
    requested_ = requested_ - block.size;
  }

  void free_all() {
    while (!live_.empty()) free(live_.begin()->first);
  }

  /// The pool's books, where no other stream has live blocks.
  void compare(bool check = true) {
    const auto status = pool_.status();
    EXPECT_EQ(status.requested, requested_);
    EXPECT_EQ(status.live_blocks, live_.size());
    Bytes live;
    for (const auto& [address, size] : places_) live += Bytes((size + kGrain.value - 1) / kGrain.value * kGrain.value);
    EXPECT_EQ(status.live, live);
    EXPECT_EQ(status.live + status.cached + status.free, status.reserved);
    EXPECT_EQ(status.reserved, kPage * upstream_.pages());
    EXPECT_THAT(upstream_.misuses(), ::testing::IsEmpty());
    if (!check) return;
    const auto checked = pool_.check();
    EXPECT_TRUE(checked) << checked.error().message;
  }

  bool is_live(std::uint32_t id) const { return live_.contains(id); }
  DeviceAddress address_of(std::uint32_t id) const { return live_.at(id).address; }
  /// The number of a live block; `which` chooses.
  std::uint32_t any(std::uint64_t which) const {
    return std::next(live_.begin(), static_cast<std::ptrdiff_t>(which % live_.size()))->first;
  }
  std::size_t live_blocks() const { return live_.size(); }

  unsigned failures = 0;

 private:
  struct Live {
    DeviceAddress address;
    Bytes size;
    BlockHandle handle;
  };

  bool refused(const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::unsatisfied) << error.message;
    ++failures;
    return false;
  }

  ModelUpstream& upstream_;
  Pool& pool_;
  StreamId stream_;
  bool handles_;
  std::map<std::uint32_t, Live> live_;
  std::map<std::uint64_t, std::uint64_t> places_;  ///< sizes by address
  Bytes requested_;
};

}  // namespace gpuwarden::memory
