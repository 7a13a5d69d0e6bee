// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/layout.hpp"

#include <map>
#include <random>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::memory {
namespace {

constexpr StreamId kOne{1};
constexpr StreamId kTwo{2};

std::map<std::uint64_t, BlockLayout> blocks_of(const std::vector<SegmentLayout>& segments) {
  std::map<std::uint64_t, BlockLayout> blocks;
  for (const SegmentLayout& segment : segments) {
    DeviceAddress next = segment.address;
    for (const BlockLayout& block : segment.blocks) {
      EXPECT_EQ(block.address, next) << "blocks lie side by side";
      next.value += block.size.value;
      EXPECT_TRUE(blocks.emplace(block.address.value, block).second);
    }
    EXPECT_EQ(next.value, segment.address.value + segment.size.value);
  }
  return blocks;
}

TEST(Layout, TellsWhatEachBlockIsUsedFor) {
  ArithmeticUpstream device(1_GiB);
  const auto pool = Pool::create(device, {}).value();
  const auto live = pool->allocate(Bytes(5'000'000), kOne).value();
  const auto shared = pool->allocate(4_MiB, kOne).value();
  const auto pending = pool->allocate(6_MiB, kOne).value();
  ASSERT_TRUE(pool->record_stream(shared, kTwo));
  ASSERT_TRUE(pool->deallocate(pending, kTwo));
  const auto segments = pool->layout();
  auto blocks = blocks_of(segments);
  EXPECT_EQ(blocks[live.value].use, BlockUse::live);
  EXPECT_EQ(blocks[live.value].requested, Bytes(5'000'000));
  EXPECT_GE(blocks[live.value].size, Bytes(5'000'000));
  EXPECT_EQ(blocks[shared.value].use, BlockUse::live) << "whoever uses it, too";
  EXPECT_EQ(blocks[pending.value].use, BlockUse::pending);
  EXPECT_EQ(blocks[pending.value].requested, Bytes(0));
  for (const SegmentLayout& segment : segments) EXPECT_EQ(segment.stream, kOne);
}

TEST(Layout, AgreesWithTheStatus) {
  std::mt19937 random(7);
  for (const Strategy& strategy : strategies()) {
    ArithmeticUpstream device(1_GiB);
    const auto pool = Pool::create(device, {.strategy = &strategy}).value();
    std::vector<DeviceAddress> live;
    for (int i = 0; i < 2000; ++i) {
      if (live.empty() || random() % 5 < 3) {
        if (const auto address = pool->allocate(Bytes(1 + random() % 8'000'000), kOne)) live.push_back(*address);
      } else {
        std::swap(live[random() % live.size()], live.back());
        ASSERT_TRUE(pool->deallocate(live.back(), kOne));
        live.pop_back();
      }
    }
    const PoolStatus status = pool->status();
    Bytes mapped;
    Bytes used;
    Bytes requested;
    std::size_t count = 0;
    for (const auto& [address, block] : blocks_of(pool->layout())) {
      mapped += block.size;
      if (block.use != BlockUse::live) continue;
      used += block.size;
      requested += block.requested;
      ++count;
    }
    EXPECT_EQ(mapped + status.spare, status.reserved) << strategy.name;
    EXPECT_EQ(used, status.live) << strategy.name;
    EXPECT_EQ(requested, status.requested) << strategy.name;
    EXPECT_EQ(count, live.size()) << strategy.name;
  }
}

}  // namespace
}  // namespace gpuwarden::memory
