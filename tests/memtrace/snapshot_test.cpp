// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "gpuwarden/memtrace/read.hpp"
#include "memtrace/snapshots.hpp"

namespace gpuwarden::memtrace {
namespace {

using gpuwarden::testing::block;
using gpuwarden::testing::event;
using gpuwarden::testing::Json;
using gpuwarden::testing::segment;
using gpuwarden::testing::snapshot;
using ::testing::HasSubstr;

Result<Trace> read(const Json& json, const ReadOptions& options = {}) { return read_trace(json.dump(), "x", options); }

TEST(Snapshot, WhatIsFreedWithoutAnAllocationWasLiveBefore) {
  const auto trace = read(
      snapshot({event("free_completed", 9000, 700), event("alloc", 5000, 100), event("free_completed", 4000, 300)}));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->before.size(), 2U);
  EXPECT_EQ(trace->before[0].size, 300U) << "in the order of addresses";
  EXPECT_EQ(trace->before[1].size, 700U);
  ASSERT_EQ(trace->events.size(), 3U);
  EXPECT_EQ(trace->events[0].block, trace->before[1].block);
  EXPECT_EQ(trace->blocks, 3U);
}

TEST(Snapshot, WhatNoEventTellsOfWasLiveAllTheTime) {
  const Json blocks{block(1024, 1000, "active_allocated"), block(2048, 2048, "inactive"),
                    block(512, 1, "active_awaiting_free"), block(4096, 4000, "active_allocated")};
  const auto trace = read(snapshot({event("alloc", 3072, 512)}, {segment(0, 8192, blocks)}));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->before.size(), 2U) << "the block at 3072 was allocated while recording";
  EXPECT_EQ(trace->before[0].size, 1000U);
  EXPECT_EQ(trace->before[1].size, 4000U);
}

TEST(Snapshot, WhatWasOnlyAskedToBeFreedStaysLive) {
  const auto trace = read(snapshot({event("alloc", 1, 512), event("free_requested", 1, 512)}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.size(), 1U);
}

TEST(Snapshot, TellsWhatPyTorchHadReserved) {
  const auto trace = read(snapshot({event("segment_alloc", 1000, 300), event("alloc", 1000, 100),
                                    event("segment_free", 5000, 900), event("segment_map", 9000, 50)},
                                   {segment(1000, 300, Json::array()), segment(9000, 50, Json::array())}));
  ASSERT_TRUE(trace && trace->recorded);
  EXPECT_EQ(trace->recorded->reserved_at_end, Bytes(350));
  EXPECT_EQ(trace->recorded->peak_reserved, Bytes(1200)) << "900 from before, and the first 300";
  EXPECT_EQ(trace->recorded->segments_taken, 2U);
  EXPECT_EQ(trace->recorded->segments_returned, 1U);
}

TEST(Snapshot, TakesTheDeviceWithMostEventsOrTheOneAskedFor) {
  Json json = snapshot({event("alloc", 1, 10)});
  json["device_traces"].push_back(Json::array({event("alloc", 1, 20), event("alloc", 2, 20)}));
  json["device_traces"].push_back(Json::array());
  const auto most = read(json);
  ASSERT_TRUE(most);
  EXPECT_EQ(most->device, 1U);
  EXPECT_EQ(most->events_of_devices, (std::vector<std::uint64_t>{1, 2, 0}));
  const auto first = read(json, {.device = 0});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->events[0].size, 10U);
  for (const unsigned none : {2U, 3U}) {
    const auto missing = read(json, {.device = none});
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().message, HasSubstr("has no events"));
    EXPECT_THAT(missing.error().hint, HasSubstr("device 1"));
  }
}

TEST(Snapshot, CountsAllocationsThatFailed) {
  const auto trace = read(snapshot({event("alloc", 1, 10), event("oom", 0, 1 << 30), event("snapshot", 0, 0)}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->failed_allocations, 1U);
  EXPECT_EQ(trace->events.size(), 1U);
}

TEST(Snapshot, NamesTheEventThatCannotBe) {
  const auto problem = [](const std::vector<Json>& events) {
    const auto trace = read(snapshot(events));
    return trace ? "" : trace.error().message;
  };
  EXPECT_THAT(problem({event("alloc", 16, 1), event("alloc", 16, 1)}),
              HasSubstr("event 1 of device 0 allocates what is live already (address 0x10)"));
  EXPECT_THAT(problem({event("alloc", 16, 1), event("free_completed", 16, 1), event("free_completed", 16, 1)}),
              HasSubstr("event 2 of device 0 frees what has been freed already"));
  EXPECT_THAT(problem({event("alloc", 16, std::uint64_t{1} << 50U)}), HasSubstr("larger than the memory of any GPU"));
  EXPECT_THAT(problem({Json({{"action", "alloc"}, {"size", 3}})}), HasSubstr("event 0 of device 0 has no addr"));
}

TEST(Snapshot, SaysHowToRecordWhereNothingWasRecorded) {
  for (const Json& json : {snapshot({}), Json::array({segment(0, 1, Json::array())}), Json::object()}) {
    const auto trace = read(json);
    ASSERT_FALSE(trace);
    EXPECT_EQ(trace.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(trace.error().hint, HasSubstr("_record_memory_history"));
  }
}

TEST(Snapshot, OfAKeyThatIsThereTwiceTheLastCounts) {
  const auto trace = read_trace(
      R"({"device_traces": [[{"action": "free", "action": "alloc", "addr": 1, "size": 5, "addr": 2, "size": 64}]]})",
      "x");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->events.size(), 1U);
  EXPECT_FALSE(trace->events[0].frees);
  EXPECT_EQ(trace->events[0].size, 64U);
  const auto none =
      read_trace(R"({"device_traces": [[{"action": "alloc", "addr": 1, "size": 5, "size": null}]]})", "x");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("event 0 of device 0 has no addr or no size"));
}

TEST(Snapshot, JsonNestsSoManyLevelsAndNoMore) {
  const auto fine = read_trace(std::string(64, '[') + std::string(64, ']'), "x");
  const auto deep = read_trace(std::string(65, '[') + std::string(65, ']'), "x");
  ASSERT_FALSE(fine);
  ASSERT_FALSE(deep);
  EXPECT_THAT(fine.error().message, HasSubstr("is not a snapshot"));
  EXPECT_EQ(deep.error().message, "x: nests deeper than 64 levels");
}

TEST(Snapshot, SaysWhereJsonEnds) {
  const std::string whole = snapshot({event("alloc", 1, 10)}).dump();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const auto trace = read_trace(whole.substr(0, size), "x.json");
    ASSERT_FALSE(trace) << size;
    EXPECT_THAT(trace.error().message, HasSubstr("is not valid JSON from byte")) << size;
  }
}

}  // namespace
}  // namespace gpuwarden::memtrace
