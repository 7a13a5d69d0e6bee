// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use.
#include <gmock/gmock.h>

#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"

namespace gpuwarden::memory {
namespace {

constexpr StreamId kThird{3};

struct StreamScene {
  explicit StreamScene(Bytes capacity = 64_MiB) : upstream(capacity) {
    upstream.works_at_once = false;
    pool = Pool::create(upstream, {}).value();
  }
  ~StreamScene() { EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty()); }
  StreamScene(const StreamScene&) = delete;
  StreamScene& operator=(const StreamScene&) = delete;

  /// A block that work of `user` touches, too.
  DeviceAddress shared_block(Bytes size, std::initializer_list<StreamId> users) {
    const auto address = pool->allocate(size, kStream).value();
    for (const StreamId user : users) {
      EXPECT_TRUE(pool->record_stream(address, user));
      upstream.follow(user, kStream);
      upstream.submit(user, address, size);
    }
    return address;
  }

  ModelUpstream upstream;
  std::unique_ptr<Pool> pool;
};

TEST(RecordStream, AFreedBlockIsNotReusedOnItsOwnStreamWithoutWaiting) {
  StreamScene scene(1_GiB);
  const auto address = scene.shared_block(100_MiB, {kOther});
  ASSERT_TRUE(scene.pool->deallocate(address, 100_MiB, kStream));
  EXPECT_EQ(scene.pool->status().live, 0_B);
  EXPECT_EQ(scene.pool->status().cached, 100_MiB);
  const auto waiting = scene.pool->allocate(100_MiB, kStream).value();
  EXPECT_FALSE(scene.upstream.is_busy_for(kStream, waiting, 100_MiB));
  const auto next = scene.shared_block(100_MiB, {kOther});
  ASSERT_TRUE(scene.pool->deallocate(next, kStream));
  scene.upstream.finish_all();
  // Found out at the next request that the free blocks cannot meet.
  EXPECT_EQ(scene.pool->allocate(100_MiB, kStream).value(), next);
  EXPECT_TRUE(scene.pool->check());
}

TEST(RecordStream, WhenMemoryIsShortTheStreamWaitsForAllUsers) {
  StreamScene scene;
  const auto address = scene.shared_block(60_MiB, {kOther, kThird, kOther});
  ASSERT_TRUE(scene.pool->deallocate(address, kStream));
  const auto again = scene.pool->allocate(60_MiB, kStream).value();
  EXPECT_EQ(again, address);
  EXPECT_FALSE(scene.upstream.is_busy_for(kStream, again, 60_MiB));
  EXPECT_EQ(scene.pool->status().rungs[static_cast<std::size_t>(Rung::wait_foreign)].helped, 1U);
}

TEST(RecordStream, AFreeOnAThirdStreamWaitsForItAsWell) {
  StreamScene scene;
  const auto address = scene.shared_block(60_MiB, {kOther});
  scene.upstream.follow(kThird, kStream);
  scene.upstream.submit(kThird, address, 60_MiB);
  ASSERT_TRUE(scene.pool->deallocate(address, kThird));
  const auto again = scene.pool->allocate(60_MiB, kStream).value();
  EXPECT_FALSE(scene.upstream.is_busy_for(kStream, again, 60_MiB));
}

TEST(RecordStream, ItsPagesAreNotTrimmedWhileTheOtherStreamWorks) {
  StreamScene scene;
  const auto address = scene.shared_block(60_MiB, {kOther});
  ASSERT_TRUE(scene.pool->deallocate(address, kStream));
  EXPECT_EQ(scene.pool->trim().value(), 0_B);
  scene.upstream.finish_all();
  EXPECT_EQ(scene.pool->trim().value(), 60_MiB);
}

TEST(RecordStream, TheOwnStreamChangesNothing) {
  StreamScene scene;
  const auto address = scene.shared_block(10_MiB, {});
  ASSERT_TRUE(scene.pool->record_stream(address, kStream));
  ASSERT_TRUE(scene.pool->deallocate(address, kStream));
  EXPECT_EQ(scene.pool->allocate(10_MiB, kStream).value(), address);
}

TEST(RecordStream, WorksWithHandlesAndKeepsTheChecks) {
  StreamScene scene;
  const auto block = scene.pool->allocate_block(10_MiB, kStream).value();
  ASSERT_TRUE(scene.pool->record_stream(block.address(), kOther));
  EXPECT_EQ(scene.pool->size_of(block.address()).value(), 10_MiB);
  EXPECT_FALSE(scene.pool->deallocate(block.address(), 9_MiB, kStream));
  ASSERT_TRUE(scene.pool->deallocate_block(block, kStream));
  EXPECT_EQ(scene.pool->deallocate_block(block, kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->record_stream(block.address(), kOther).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->record_stream({}, kOther).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->record_stream({block.address().value + 512}, kOther).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(scene.pool->check());
}

}  // namespace
}  // namespace gpuwarden::memory
