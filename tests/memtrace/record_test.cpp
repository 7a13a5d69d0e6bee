// SPDX-License-Identifier: Apache-2.0
// Recordings of a replay: as snapshots in PyTorch's shape, and as a page.
#include "gpuwarden/memtrace/record.hpp"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/snapshot.hpp"
#include "gpuwarden/memtrace/timeline.hpp"
#include "memtrace/timeline_data.hpp"
#include "support/patience.hpp"
#include "support/source_folder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::memtrace {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kRows =
    "op,id,size,stream,time_us,phase\n"
    "a,1,3000000,0,0,pre\na,2,700,0,0,pre\n"
    "a,3,5000000,77,5,rec\nf,1,3000000,0,10,rec\na,4,100000000,0,20,rec\nf,4,100000000,0,30,rec\na,5,4000,77,40,rec\n";

struct Recorded {
  Trace trace;
  Script script;
  Recording recording;
};

Recorded record_rows(unsigned steps, Bytes device = 80_GiB) {
  Recorded all{.trace = read_trace(kRows, "x").value()};
  all.script = make_script(all.trace, std::vector<unsigned>(steps, 0));
  all.recording = record(all.trace, all.script, {.device_memory = device}).value();
  return all;
}

TEST(Recording, TellsEveryAllocationAndFreeWithItsTime) {
  const Recorded all = record_rows(2);
  EXPECT_EQ(all.recording.operations, all.script.operations);
  EXPECT_EQ(all.recording.steps, (std::vector<std::uint64_t>{0, 7}));
  std::map<std::uint32_t, std::uint64_t> live;
  std::int64_t last = 0;
  std::uint64_t mapped = 0;
  for (const RecordedEvent& event : all.recording.events) {
    EXPECT_GE(event.time_us, last);
    last = event.time_us;
    if (event.what == Happening::allocated) {
      EXPECT_TRUE(live.emplace(event.block, event.address).second);
      EXPECT_EQ(event.stream, event.block == 2 || event.block == 4 ? 77U : 0U);
    } else if (event.what == Happening::freed) {
      ASSERT_TRUE(live.contains(event.block));
      EXPECT_EQ(live[event.block], event.address);
      live.erase(event.block);
    } else if (event.what == Happening::mapped) {
      mapped += event.size;
    }
  }
  EXPECT_EQ(live.size(), 3U) << "blocks 2, 3 and 5 stay";
  EXPECT_GE(mapped, 108'000'000U);
  EXPECT_EQ(all.recording.was_before, (std::vector<bool>{true, true, false, false, false}));
}

TEST(Recording, EndsWhereMemoryRunsOut) {
  const Recorded all = record_rows(1, 32_MiB);
  ASSERT_FALSE(all.recording.events.empty());
  EXPECT_EQ(all.recording.events.back().what, Happening::out_of_memory);
  EXPECT_EQ(all.recording.events.back().size, 100'000'000U);
  EXPECT_THAT(snapshot_json(all.recording), HasSubstr("{\"action\":\"oom\",\"device_free\":"));
}

/// What PyTorch's viewer does with a snapshot: undoes all events from the last to the first, where every block must be
/// known and lie in a segment, and every piece that was mapped must lie whole in one segment.
void undo_all(const Json& snapshot) {
  std::map<std::uint64_t, std::uint64_t> segments;  // end by beginning; pieces side by side are one
  std::map<std::uint64_t, std::uint64_t> blocks;
  for (const Json& segment : snapshot["segments"]) {
    std::uint64_t next = segment["address"];
    segments[next] = next + segment["total_size"].get<std::uint64_t>();
    for (const Json& block : segment["blocks"]) {
      EXPECT_EQ(block["address"], next);
      next += block["size"].get<std::uint64_t>();
      if (block["state"] == "active_allocated") blocks[block["address"]] = block["requested_size"];
    }
    EXPECT_EQ(next, segments[segment["address"]]) << "blocks fill their segment";
  }
  const auto holder = [&](std::uint64_t address) {
    auto found = segments.upper_bound(address);
    return found == segments.begin() ? segments.end() : std::prev(found);
  };
  const Json& events = snapshot["device_traces"][0];
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    const std::string action = (*event)["action"];
    const std::uint64_t address = event->value("addr", std::uint64_t{0});
    const std::uint64_t size = (*event)["size"];
    if (action == "free_completed") {
      EXPECT_TRUE(blocks.emplace(address, size).second);
    } else if (action == "alloc") {
      EXPECT_EQ(blocks.erase(address), 1U);
    } else if (action == "segment_unmap") {
      segments[address] = address + size;
      const auto after = segments.find(address + size);
      if (after != segments.end()) segments[address] = after->second, segments.erase(after);
      const auto before = segments.find(address);
      if (before != segments.begin() && std::prev(before)->second == address)
        std::prev(before)->second = before->second, segments.erase(before);
    } else if (action == "segment_map") {
      const auto whole = holder(address);
      ASSERT_NE(whole, segments.end());
      const std::uint64_t end = whole->second;
      ASSERT_LE(address + size, end) << "a mapped piece lies in one segment";
      whole->second = address;
      if (whole->first == address) segments.erase(whole);
      if (address + size < end) segments[address + size] = end;
    }
    for (const auto& [at, bytes] : blocks) {
      const auto in = holder(at);
      ASSERT_TRUE(in != segments.end() && at + bytes <= in->second) << "block at " << at << " lies in no segment";
    }
  }
  EXPECT_TRUE(blocks.empty());
  EXPECT_TRUE(segments.empty());
}

TEST(PoolSnapshot, CanBeUndoneToItsBeginningAsPyTorchsViewerDoes) {
  for (const memory::Strategy& strategy : memory::strategies()) {
    const Trace trace = read_trace(kRows, "x").value();
    const Script script = make_script(trace, std::vector<unsigned>(4, 0));
    const auto recording = record(trace, script, {.strategy = &strategy, .device_memory = 112_MiB});
    ASSERT_TRUE(recording) << recording.error().message;
    SCOPED_TRACE(strategy.name);
    undo_all(Json::parse(snapshot_json(*recording)));
  }
}

TEST(PoolSnapshot, IsReadBackAsTheTraceItWasMadeOf) {
  const Recorded all = record_rows(1);
  for (const std::string& text : {snapshot_json(all.recording), snapshot_pickle(all.recording)}) {
    const auto again = read_trace(text, "again");
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_TRUE(again->recorded);
    EXPECT_EQ(again->events.size(), all.trace.before.size() + all.trace.events.size());
    const Script script = make_script(*again, std::vector<unsigned>{0});
    EXPECT_EQ(script.peak_requested, all.script.peak_requested);
    const auto found = replay(all.script, {.rounds = 0});
    EXPECT_EQ(again->recorded->peak_reserved, found->peak_reserved);
  }
}

TEST(PoolSnapshot, PickleAndJsonSayTheSame) {
  const gpuwarden::testing::TempDir folder;
  const Recorded all = record_rows(3);
  const Json json = Json::parse(snapshot_json(all.recording));
  const Json& segment = json["segments"][0];
  for (const char* key : {"device", "address", "total_size", "allocated_size", "active_size", "requested_size",
                          "stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"})
    EXPECT_TRUE(segment.contains(key)) << key;
  const auto pickle = folder / "x.pickle";
  ASSERT_TRUE(write_file_atomically(pickle, snapshot_pickle(all.recording)));
  const auto python = testing::run_patiently(
      {.argv = {"python3", "-c", "import json, pickle, sys\nprint(json.dumps(pickle.load(open(sys.argv[1], 'rb'))))",
                pickle.string()}});
  if (!python) GTEST_SKIP() << "there is no python3";
  EXPECT_EQ(Json::parse(python->standard_output), json) << python->standard_error;
}

TEST(PoolSnapshot, IsMadeOfALivePool) {
  memory::ArithmeticUpstream device(1_GiB);
  const auto pool = memory::Pool::create(device, {}).value();
  const auto kept = pool->allocate(Bytes(5000), memory::StreamId{7}).value();
  const auto given = pool->allocate(20_MiB, memory::StreamId{7}).value();
  ASSERT_TRUE(pool->deallocate(given, memory::StreamId{7}));
  const Json json = Json::parse(snapshot_json({.segments = pool->layout()}));
  std::uint64_t reserved = 0;
  std::vector<std::uint64_t> live;
  for (const Json& segment : json["segments"]) {
    reserved += segment["total_size"].get<std::uint64_t>();
    EXPECT_EQ(segment["stream"], 7);
    for (const Json& block : segment["blocks"]) {
      if (block["state"] == "active_allocated") live.push_back(block["address"]);
    }
  }
  EXPECT_EQ(Bytes(reserved), pool->status().reserved);
  EXPECT_EQ(live, std::vector<std::uint64_t>{kept.value});
}

TEST(Timeline, PlacesBlocksWithoutOverlap) {
  const Recorded all = record_rows(2);
  const TimelineData data = timeline_data(all.recording, 1000, 100);
  ASSERT_EQ(data.blocks.size(), all.script.allocations);
  EXPECT_EQ(data.left_out, 0U);
  for (const Lifetime& one : data.blocks) {
    EXPECT_LE(one.place + one.size / 512, data.height);
    EXPECT_LE(one.begin, one.end);
    for (const Lifetime& other : data.blocks) {
      if (&one == &other || one.begin >= other.end || other.begin >= one.end) continue;
      const bool apart =
          one.place + (one.size + 511) / 512 <= other.place || other.place + (other.size + 511) / 512 <= one.place;
      EXPECT_TRUE(apart) << "blocks " << one.block << " and " << other.block;
    }
  }
  std::uint64_t most = 0;
  for (const CurvePoint& point : data.curve) most = std::max(most, point.live);
  EXPECT_EQ(Bytes(most), all.script.peak_requested);
}

TEST(Timeline, KeepsTheBlocksThatHeldMost) {
  const Recorded all = record_rows(2);
  const TimelineData data = timeline_data(all.recording, 3, 100);
  EXPECT_EQ(data.blocks.size(), 3U);
  EXPECT_EQ(data.left_out, all.script.allocations - 3);
  for (const Lifetime& one : data.blocks) EXPECT_GE(one.size, 3'000'000U);
}

TEST(Timeline, IsAPageThatWorksOnItsOwn) {
  const gpuwarden::testing::TempDir folder;
  const Recorded all = record_rows(3);
  const std::string page = timeline_html(all.recording, {"<script>alert(1)</script>.csv", {"SIMULATED & counted"}});
  EXPECT_THAT(page, HasSubstr("<title>&lt;script&gt;alert(1)&lt;/script&gt;.csv</title>"));
  EXPECT_THAT(page, HasSubstr("<p>SIMULATED &amp; counted</p>"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("http")));
  const auto file = folder / "page.html";
  ASSERT_TRUE(write_file_atomically(file, page));
  const auto script = testing::source_folder() / "tests/memtrace/timeline_page.js";
  const auto node = testing::run_patiently({.argv = {"node", script.string(), file.string()}});
  if (!node) GTEST_SKIP() << "there is no node";
  EXPECT_EQ(node->exit_code, 0) << node->standard_error;
  EXPECT_THAT(node->standard_output, HasSubstr("blocks, "));
}

TEST(Timeline, OfNothingIsAPageToo) { EXPECT_THAT(timeline_html({}, {"empty", {}}), HasSubstr("\"operations\":0")); }

}  // namespace
}  // namespace gpuwarden::memtrace
