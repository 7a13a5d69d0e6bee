// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"

namespace gpuwarden::memory {
namespace {

/// Gives every second one of the blocks back.
std::size_t thin_out(Pool& pool, std::vector<DeviceAddress>& blocks) {
  std::size_t freed = 0;
  for (std::size_t i = 1; i < blocks.size(); i += 2, ++freed) EXPECT_TRUE(pool.deallocate(blocks[i], StreamId{0}));
  return freed;
}

// Blocks of twice the size never fit between those that stay, so that pages move to addresses that were never used.
TEST(AddressSpace, LastsWhilePagesMoveBetweenScatteredBlocks) {
  for (const Strategy& strategy : strategies()) {
    // A piece of several pages stays where it is while one block of it lives.
    if (strategy.in_pieces) continue;
    ArithmeticUpstream device(1364_MiB);
    const auto pool = Pool::create(device, {.strategy = &strategy}).value();
    std::size_t count = 1364 / 4;
    for (Bytes size = 4_MiB; count > 4; size = size * 2) {
      std::vector<DeviceAddress> blocks;
      for (std::size_t i = 0; i < count; ++i) {
        const auto block = pool->allocate(size, StreamId{0});
        ASSERT_TRUE(block) << strategy.name << ", blocks of " << size.value << " bytes: " << block.error().message;
        blocks.push_back(*block);
      }
      count = thin_out(*pool, blocks) / 2;
    }
    EXPECT_TRUE(pool->check()) << strategy.name;
  }
}

TEST(AddressSpace, IsTakenAsThereIs) {
  ModelUpstream device(1_GiB);
  int refusals = 1;
  device.fails = [&](const std::string& call) { return call == "reserve" && refusals-- > 0; };
  {
    const auto pool = Pool::create(device, {});
    ASSERT_TRUE(pool) << pool.error().message;
    EXPECT_EQ(device.reservations(), 1U);
    EXPECT_TRUE((*pool)->allocate(900_MiB, StreamId{0}));
  }
  EXPECT_EQ(device.reservations(), 0U);
  refusals = 100;
  const auto refused = Pool::create(device, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
  device.failure = ErrorCode::unavailable;
  refusals = 1;
  EXPECT_EQ(Pool::create(device, {}).error().code, ErrorCode::unavailable)
      << "only a lack of addresses is worth a retry";
}

}  // namespace
}  // namespace gpuwarden::memory
