// SPDX-License-Identifier: Apache-2.0
// What a pool says when it has no more, and that its advice is true.
#include "gpuwarden/memory/out_of_memory.hpp"

#include <set>

#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"

#include <gmock/gmock.h>

namespace gpuwarden::memory {
namespace {

/// A pool whose reports are kept.
struct Reporting {
  explicit Reporting(Bytes capacity, PoolConfig config = {}) : upstream(capacity) {
    config.on_out_of_memory = [this](const OutOfMemoryReport& report) { reports.push_back(report); };
    pool = Pool::create(upstream, std::move(config)).value();
  }
  /// The report of an allocation that fails.
  OutOfMemoryReport fail(Bytes size, StreamId stream = kStream) {
    const auto address = pool->allocate(size, stream);
    EXPECT_FALSE(address);
    if (address || reports.empty()) return {};
    EXPECT_EQ(address.error().code, ErrorCode::unsatisfied);
    EXPECT_EQ(address.error().message, reports.back().sentence());
    EXPECT_EQ(address.error().hint, reports.back().help());
    return reports.back();
  }

  ModelUpstream upstream;
  std::vector<OutOfMemoryReport> reports;
  std::unique_ptr<Pool> pool;
};

TEST(OutOfMemory, NamesTheLimitWhereTheDeviceHasMore) {
  Reporting scene(1_GiB, {.limit = 64_MiB, .who_holds_what = [] { return std::string("pid 42 holds 3 GiB"); }});
  ASSERT_TRUE(scene.pool->allocate(40_MiB, kStream));
  const auto report = scene.fail(Bytes((30_MiB).value - 100));
  EXPECT_EQ(report.requested.value, (30_MiB).value - 100);
  EXPECT_EQ(report.rounded, 30_MiB);
  EXPECT_EQ(report.limit, 64_MiB);
  EXPECT_EQ(report.live, 40_MiB);
  EXPECT_EQ(report.reserved, 40_MiB);
  EXPECT_EQ(report.device_free, 984_MiB);
  EXPECT_EQ(report.largest_obtainable, 24_MiB);
  EXPECT_EQ(report.advice, Advice::raise_limit);
  for (const char* part : {"CUDA out of memory. Tried to allocate 30 MiB (31457180 bytes).",
                           "total capacity of 1 GiB of which 984 MiB is free", "40 MiB is allocated",
                           "limit of 67108864 bytes is reached", "pid 42 holds 3 GiB"})
    EXPECT_THAT(report.sentence(), ::testing::HasSubstr(part));
  EXPECT_THAT(report.help(), ::testing::HasSubstr("pool's limit of 64 MiB"));
  EXPECT_EQ(scene.pool->status().out_of_memory, 1U);
}

TEST(OutOfMemory, SaysSoWhereTheRequestAloneIsTooLarge) {
  Reporting scene(64_MiB);
  EXPECT_EQ(scene.fail(80_MiB).advice, Advice::ask_for_less);
}

TEST(OutOfMemory, ASizeThatNoDeviceHasIsReportedLikeAnyOther) {
  Reporting scene(64_MiB);
  const auto kept = scene.pool->allocate(10_MiB, kStream).value();
  const std::uint64_t calls = scene.pool->status().upstream_calls;
  std::uint64_t refused = 0;
  for (const std::uint64_t size : {std::uint64_t{1} << 40U, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    for (const StreamId stream : {kStream, StreamId{77}}) {
      const auto report = scene.fail(Bytes(size), stream);
      EXPECT_EQ(report.requested, Bytes(size));
      EXPECT_GE(report.rounded, report.requested);
      EXPECT_EQ(report.advice, Advice::ask_for_less) << size;
      EXPECT_EQ(scene.pool->status().out_of_memory, ++refused);
    }
  }
  EXPECT_EQ(scene.pool->allocate(Bytes(~std::uint64_t{0}), kStream, 1_MiB).error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(scene.pool->status().upstream_calls, calls) << "nothing was looked for";
  EXPECT_TRUE(scene.pool->check());
  EXPECT_TRUE(scene.pool->deallocate(kept, kStream));
}

TEST(OutOfMemory, AContextThatIsGoneIsNoWantOfMemory) {
  Reporting scene(64_MiB);
  scene.upstream.fails = [](const std::string&) { return true; };
  scene.upstream.failure = ErrorCode::unavailable;
  EXPECT_EQ(scene.pool->allocate(10_MiB, kStream).error().code, ErrorCode::unavailable);
  EXPECT_EQ(scene.pool->status().out_of_memory, 0U);
  EXPECT_THAT(scene.reports, ::testing::IsEmpty());
}

TEST(OutOfMemory, NamesWhatIsKeptFreeForOthers) {
  Reporting scene(64_MiB, {.keep_free = 32_MiB});
  EXPECT_EQ(scene.fail(40_MiB).advice, Advice::lower_keep_free);
}

TEST(OutOfMemory, NamesTheOthersOnTheDevice) {
  Reporting scene(64_MiB);
  std::vector<PageHandle> theirs(28);
  ASSERT_TRUE(scene.upstream.create(theirs));
  const auto report = scene.fail(20_MiB);
  EXPECT_EQ(report.advice, Advice::end_others);
  EXPECT_THAT(report.help(), ::testing::HasSubstr("56 MiB of the device are held outside this pool"));
}

TEST(OutOfMemory, TellsFragmentsFromMemoryThatIsNeeded) {
  Reporting scene(64_MiB, {.strategy = find_strategy("balanced")});
  std::vector<DeviceAddress> blocks;
  // Blocks of 1.5 MiB side by side; every other one goes, so that no page is without a user.
  for (int i = 0; i < 42; ++i) blocks.push_back(scene.pool->allocate(1536_KiB, kStream).value());
  EXPECT_EQ(scene.fail(16_MiB).advice, Advice::use_less);
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(scene.pool->deallocate(blocks[i], kStream));
  const auto report = scene.fail(16_MiB);
  EXPECT_EQ(report.advice, Advice::move_buffers);
  EXPECT_GE(report.free + report.cached, 16_MiB);
  EXPECT_LT(report.largest_obtainable, 16_MiB);
  EXPECT_GT(report.external_fragmentation(), 0.9);
}

TEST(OutOfMemory, SaysWhenOnlyADriverCallFailed) {
  Reporting scene(64_MiB);
  ASSERT_TRUE(scene.pool->allocate(4_MiB, kStream));
  scene.upstream.fails = [](const std::string& call) { return call == "map"; };
  const auto report = scene.fail(16_MiB);
  EXPECT_EQ(report.advice, Advice::try_again);
  EXPECT_THAT(report.sentence(), ::testing::HasSubstr("map was made to fail"));
}

TEST(OutOfMemory, ListsStreamsAndWhatWasTried) {
  Reporting scene(256_MiB);
  for (std::uint64_t stream = 1; stream <= 12; ++stream)
    ASSERT_TRUE(scene.pool->allocate(Bytes(stream << 21U), StreamId{stream}));
  const auto report = scene.fail(200_MiB);
  ASSERT_EQ(report.streams.size(), 8U);
  EXPECT_EQ(report.more_streams, 4U);
  EXPECT_EQ(report.streams[0].stream, StreamId{12});
  EXPECT_EQ(report.streams[0].live, 24_MiB);
  EXPECT_EQ(report.streams[0].live_blocks, 1U);
  std::uint64_t nanoseconds = 0;
  for (std::size_t i = 0; i < kRungs; ++i) {
    // Nothing was given back on another stream.
    EXPECT_EQ(report.rungs[i].tried, Rung{static_cast<std::uint8_t>(i)} == Rung::wait_foreign ? 0U : 1U);
    nanoseconds += report.rungs[i].nanoseconds;
  }
  EXPECT_GT(nanoseconds, 0U);
  EXPECT_GT(report.rungs[static_cast<std::size_t>(Rung::grow)].helped +
                report.rungs[static_cast<std::size_t>(Rung::grow_near)].helped,
            0U);
  const std::string text = report.to_text();
  for (const char* part : {"stream 0xc: 24 MiB live in 1 blocks", "and 4 more", "synchronize (", "what helps: "})
    EXPECT_THAT(text, ::testing::HasSubstr(part));
}

TEST(OutOfMemory, HasAnAdviceOfItsOwnForEachCase) {
  const OutOfMemoryReport base{.requested = 10_MiB,
                               .rounded = 10_MiB,
                               .device_total = 100_MiB,
                               .device_free = 0_B,
                               .reserved = 95_MiB,
                               .live = 95_MiB};
  EXPECT_EQ(advice_for(base), Advice::use_less);
  OutOfMemoryReport graphs = base;
  graphs.live = 80_MiB;
  graphs.cached = graphs.captured = 15_MiB;
  EXPECT_EQ(advice_for(graphs), Advice::release_graphs);
  graphs.capturing = true;
  EXPECT_EQ(advice_for(graphs), Advice::end_capture);
  OutOfMemoryReport budget = base;
  budget.device_free = 50_MiB;
  budget.reserved = budget.live = 50_MiB;
  budget.budget_left = 0_B;
  EXPECT_EQ(advice_for(budget), Advice::raise_limit);
  EXPECT_THAT((budget.advice = Advice::raise_limit, budget.help()), ::testing::HasSubstr("process's limit"));
  std::set<std::string> words;
  for (const Advice advice :
       {Advice::ask_for_less, Advice::raise_limit, Advice::lower_keep_free, Advice::end_capture, Advice::release_graphs,
        Advice::end_others, Advice::try_again, Advice::move_buffers, Advice::use_less}) {
    graphs.advice = advice;
    EXPECT_TRUE(words.insert(graphs.help()).second) << to_string(advice);
    EXPECT_TRUE(words.insert(std::string(to_string(advice))).second);
  }
}

TEST(OutOfMemory, CallsTheObserverWithoutLocks) {
  ModelUpstream upstream(64_MiB);
  Pool* used = nullptr;
  Bytes seen;
  const auto pool =
      Pool::create(upstream, {.on_out_of_memory = [&](const OutOfMemoryReport&) { seen = used->status().live; }})
          .value();
  used = pool.get();
  ASSERT_TRUE(pool->allocate(50_MiB, kOther));
  EXPECT_FALSE(pool->allocate(50_MiB, kStream));
  EXPECT_EQ(seen, 50_MiB);
}

TEST(Rungs, StandInTheirTableInTheOrderInWhichTheyAreClimbed) {
  for (std::size_t i = 0; i < kRungs; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kRungTable[i].id), i);
    EXPECT_EQ(to_string(kRungTable[i].id), kRungTable[i].name);
  }
  ModelUpstream device(64_MiB);
  std::string said;
  const auto keep = [&](const OutOfMemoryReport& report) { said = report.to_text(); };
  const auto pool = Pool::create(device, {.on_out_of_memory = keep}).value();
  ASSERT_TRUE(pool->allocate(40_MiB, StreamId{1}));
  ASSERT_FALSE(pool->allocate(40_MiB, StreamId{1}));
  // The report names what was tried as it was tried.
  std::size_t last = 0;
  for (const RungRow& row : kRungTable) {
    if (row.needs != RungNeeds::nothing) continue;
    const std::size_t at = said.find(" " + std::string(row.name) + " (");
    ASSERT_NE(at, std::string::npos) << row.name;
    EXPECT_GT(at, last) << row.name;
    last = at;
  }
}

}  // namespace
}  // namespace gpuwarden::memory
