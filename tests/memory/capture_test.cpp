// SPDX-License-Identifier: Apache-2.0
// Memory of captured graphs: kept apart, never moved, back when the graph is gone.
#include <gmock/gmock.h>

#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"

namespace gpuwarden::memory {
namespace {

constexpr StreamId kThird{3};

struct CaptureScene {
  explicit CaptureScene(Bytes capacity = 1_GiB) : upstream(capacity) {
    upstream.works_at_once = false;
    pool = Pool::create(upstream, {}).value();
  }
  ~CaptureScene() {
    EXPECT_TRUE(pool->check());
    pool.reset();
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
    EXPECT_EQ(upstream.pages(), 0U);
  }
  CaptureScene(const CaptureScene&) = delete;
  CaptureScene& operator=(const CaptureScene&) = delete;

  CaptureId begin(StreamId stream) {
    const auto id = pool->begin_capture(stream).value();
    upstream.capture(stream, true);
    return id;
  }
  void end(CaptureId id, std::initializer_list<StreamId> streams) {
    for (const StreamId stream : streams) upstream.capture(stream, false);
    EXPECT_TRUE(pool->end_capture(id));
  }

  ModelUpstream upstream;
  std::unique_ptr<Pool> pool;
};

TEST(Capture, UsesMemoryOfItsOwnAndReusesItWithin) {
  CaptureScene scene;
  const auto before = scene.pool->allocate(10_MiB, kStream).value();
  ASSERT_TRUE(scene.pool->deallocate(before, kStream));
  const auto id = scene.begin(kStream);
  const auto captured = scene.pool->allocate(10_MiB, kStream).value();
  EXPECT_NE(captured, before);
  ASSERT_TRUE(scene.pool->deallocate(captured, kStream));
  EXPECT_EQ(scene.pool->allocate(10_MiB, kStream).value(), captured);
  ASSERT_TRUE(scene.pool->deallocate(captured, kStream));
  scene.end(id, {kStream});
  // The stream is back where it was, and what the graph uses is not given out.
  EXPECT_EQ(scene.pool->allocate(10_MiB, kStream).value(), before);
  EXPECT_NE(scene.pool->allocate(10_MiB, kStream).value(), captured);
}

TEST(Capture, NothingIsTakenFromAGraphWhenMemoryIsShort) {
  CaptureScene scene(64_MiB);
  const auto id = scene.begin(kStream);
  const auto captured = scene.pool->allocate(40_MiB, kStream).value();
  ASSERT_TRUE(scene.pool->deallocate(captured, kStream));
  scene.end(id, {kStream});
  const auto failed = scene.pool->allocate(30_MiB, kOther);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().hint, ::testing::HasSubstr("40 MiB are kept for captured graphs"));
  EXPECT_EQ(scene.pool->trim().value(), 0_B);
  EXPECT_FALSE(scene.pool->allocate(30_MiB, kStream));
  // The replay runs elsewhere; the memory goes to whoever wants it only behind it.
  scene.upstream.submit(kThird, captured, 40_MiB);
  ASSERT_TRUE(scene.pool->release_capture(id, kThird));
  const auto address = scene.pool->allocate(50_MiB, kOther).value();
  EXPECT_FALSE(scene.upstream.is_busy_for(kOther, address, 50_MiB));
}

TEST(Capture, AsksForNoEventsAndUnmapsNothingMeanwhile) {
  CaptureScene scene(64_MiB);
  const auto idle = scene.pool->allocate(40_MiB, kOther).value();
  scene.upstream.submit(kOther, idle, 40_MiB);
  ASSERT_TRUE(scene.pool->deallocate(idle, kOther));
  scene.upstream.finish_all();
  const auto id = scene.begin(kStream);
  const auto failed = scene.pool->allocate(30_MiB, kStream);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().hint, ::testing::HasSubstr("being captured into a graph"));
  EXPECT_EQ(scene.pool->trim().value(), 0_B);
  EXPECT_TRUE(scene.pool->allocate(20_MiB, kStream));
  EXPECT_TRUE(scene.pool->allocate(40_MiB, kOther));
  scene.end(id, {kStream});
}

TEST(Capture, TellsNoEventsApartWhereNobodyToldThePool) {
  CaptureScene scene(64_MiB);
  const auto address = scene.pool->allocate(40_MiB, kOther).value();
  ASSERT_TRUE(scene.pool->deallocate(address, kOther));
  scene.upstream.capture(kOther, true);
  scene.upstream.capture(kStream, true);
  // Neither an event on a stream that is captured nor one that stops waiting for another.
  EXPECT_FALSE(scene.pool->order(kStream, kThird));
  EXPECT_FALSE(scene.pool->order(kThird, kOther));
  scene.upstream.capture(kOther, false);
  scene.upstream.capture(kStream, false);
  EXPECT_TRUE(scene.pool->order(kThird, kOther));
}

TEST(Capture, StreamsMayJoinAndGraphsMayShare) {
  CaptureScene scene;
  const auto id = scene.begin(kStream);
  ASSERT_TRUE(scene.pool->join_capture(id, kOther));
  scene.upstream.capture(kOther, true);
  const auto first = scene.pool->allocate(4_MiB, kStream).value();
  const auto second = scene.pool->allocate(4_MiB, kOther).value();
  ASSERT_TRUE(scene.pool->deallocate(first, kStream));
  ASSERT_TRUE(scene.pool->deallocate(second, kOther));
  scene.end(id, {kStream, kOther});
  ASSERT_TRUE(scene.pool->join_capture(id, kStream));
  scene.upstream.capture(kStream, true);
  EXPECT_EQ(scene.pool->allocate(4_MiB, kStream).value(), first);
  scene.end(id, {kStream});
  ASSERT_TRUE(scene.pool->release_capture(id, kStream));
  ASSERT_TRUE(scene.pool->deallocate(first, kStream));
}

TEST(Capture, BlocksThatOutliveTheGraphAreFreedAsUsual) {
  CaptureScene scene;
  const auto id = scene.begin(kStream);
  const auto result = scene.pool->allocate(4_MiB, kStream).value();
  scene.end(id, {kStream});
  ASSERT_TRUE(scene.pool->release_capture(id, kOther));
  EXPECT_EQ(scene.pool->size_of(result).value(), 4_MiB);
  ASSERT_TRUE(scene.pool->deallocate(result, 4_MiB, kStream));
  scene.upstream.finish_all();
  EXPECT_EQ(scene.pool->trim().value(), 4_MiB);
}

TEST(Capture, ManyGraphsOneAfterTheOtherNeedNoMoreLanes) {
  CaptureScene scene;
  for (int i = 0; i < 200; ++i) {
    const auto id = scene.begin(kStream);
    const auto address = scene.pool->allocate(4_MiB, kStream).value();
    ASSERT_TRUE(scene.pool->deallocate(address, kStream));
    scene.end(id, {kStream});
    scene.upstream.submit(kOther, address, 4_MiB);
    ASSERT_TRUE(scene.pool->release_capture(id, kOther)) << i;
  }
  EXPECT_LE(scene.pool->status().reserved, 8_MiB);
}

TEST(Capture, RefusesWhatMakesNoSense) {
  CaptureScene scene;
  const auto id = scene.begin(kStream);
  EXPECT_EQ(scene.pool->begin_capture(kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->release_capture(id, kStream).error().code, ErrorCode::invalid_argument);
  scene.end(id, {kStream});
  EXPECT_EQ(scene.pool->end_capture(id).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->end_capture({77}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->join_capture({77}, kStream).error().code, ErrorCode::invalid_argument);
  ASSERT_TRUE(scene.pool->release_capture(id, kStream));
  EXPECT_EQ(scene.pool->release_capture(id, kStream).error().code, ErrorCode::invalid_argument);
}

TEST(Capture, StaysKeptWhenTheReplaysCannotBeWaitedFor) {
  CaptureScene scene;
  const auto id = scene.begin(kStream);
  const auto address = scene.pool->allocate(4_MiB, kStream).value();
  ASSERT_TRUE(scene.pool->deallocate(address, kStream));
  scene.end(id, {kStream});
  scene.upstream.submit(kOther, address, 4_MiB);
  for (const char* failing : {"record", "wait"}) {
    scene.upstream.fails = [&](const std::string& call) { return call == failing; };
    EXPECT_FALSE(scene.pool->release_capture(id, kOther)) << failing;
  }
  scene.upstream.fails = {};
  EXPECT_TRUE(scene.pool->release_capture(id, kOther));
}

TEST(Capture, WhatIsKeptForItIsNoFreeBlockForOthers) {
  CaptureScene scene;
  const auto small = scene.pool->allocate(4_MiB, kStream).value();
  ASSERT_TRUE(scene.pool->deallocate(small, kStream));
  const auto id = scene.begin(kStream);
  const auto captured = scene.pool->allocate(100_MiB, kStream).value();
  ASSERT_TRUE(scene.pool->deallocate(captured, kStream));
  // Another size merges what is kept for reuse; the rest of it is a free block.
  ASSERT_TRUE(scene.pool->allocate(50_MiB, kStream));
  scene.end(id, {kStream});
  EXPECT_LE(scene.pool->status().largest_free, 4_MiB);
  ASSERT_TRUE(scene.pool->release_capture(id, kStream));
  EXPECT_EQ(scene.pool->status().largest_free, 50_MiB);
}

TEST(Capture, WhatIsFreedOnItsStreamMeanwhileComesBack) {
  CaptureScene scene;
  const auto own = scene.pool->allocate(10_MiB, kStream).value();
  const auto others = scene.pool->allocate(10_MiB, kOther).value();
  const auto noted = scene.pool->allocate(10_MiB, kOther).value();
  ASSERT_TRUE(scene.pool->record_stream(own, kOther));
  const auto id = scene.begin(kStream);
  ASSERT_TRUE(scene.pool->record_stream(noted, kStream));
  ASSERT_TRUE(scene.pool->record_stream(own, kStream));
  ASSERT_TRUE(scene.pool->deallocate(own, kStream));
  ASSERT_TRUE(scene.pool->deallocate(others, kStream));
  ASSERT_TRUE(scene.pool->deallocate(noted, kOther));
  scene.end(id, {kStream});
  scene.upstream.finish_all();
  // None of it waits for the lane that stood in for the stream, which gets no events.
  EXPECT_EQ(scene.pool->trim().value(), 30_MiB);
  EXPECT_EQ(scene.pool->status().cached, 0_B);
}

}  // namespace
}  // namespace gpuwarden::memory
