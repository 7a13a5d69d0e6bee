// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/replay.hpp"

#include <fmt/format.h>

#include <random>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/record.hpp"
#include "support/corpus.hpp"

namespace gpuwarden::memtrace {
namespace {

using ::testing::HasSubstr;

Trace trace_of(const std::string& rows) { return read_trace("op,id,size,stream,time_us,phase\n" + rows, "x").value(); }

/// "+512@0" allocates in slot 0, "-0" frees it.
std::string spoken(const std::vector<Operation>& operations) {
  std::string text;
  for (const Operation& operation : operations)
    text += operation.size != 0 ? "+" + std::to_string(operation.size) + "@" + std::to_string(operation.slot) + " "
                                : "-" + std::to_string(operation.slot) + " ";
  return text;
}

TEST(Script, LaterStepsFindWhatTheFirstFound) {
  const Trace trace =
      trace_of("a,1,10,0,0,pre\na,2,20,0,0,pre\nf,1,10,0,0,rec\na,3,30,0,0,rec\na,4,40,0,0,rec\nf,3,30,0,0,rec\n");
  const Script script = make_script(trace, std::vector<unsigned>{0, 0, 0});
  ASSERT_EQ(script.parts.size(), 2U);
  EXPECT_EQ(script.order, (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(script.again, (std::vector<std::uint32_t>{1, 1, 1}));
  EXPECT_EQ(spoken(script.parts[0]), "+10@0 +20@1 -0 +30@2 +40@3 -2 ");
  EXPECT_EQ(spoken(script.parts[1]), "-3 +10@0 -0 +30@2 +40@3 -2 ");
  EXPECT_EQ(script.slots, 4U);
  EXPECT_EQ(script.operations, 18U);
  EXPECT_EQ(script.peak_requested, Bytes(90));
  EXPECT_EQ(script.peak_live, Bytes(3 * 512));
  EXPECT_EQ(script.peak_operation, 5U) << "the first time";
}

TEST(Script, SizesFollowTheLengthOfEachStep) {
  const Trace trace = read_trace("op,id,phase,c0,c1,c2\na,1,rec,0,1,0\nf,1,rec,0,0,0\n", "x").value();
  const Script script = make_script(trace, std::vector<unsigned>{5, 7, 5, 7});
  EXPECT_EQ(script.order, (std::vector<std::uint32_t>{0, 2, 1, 2}));
  EXPECT_EQ(spoken(script.parts[2]), "+7@0 -0 ");
  EXPECT_EQ(script.peak_requested, Bytes(7));
  EXPECT_EQ(random_lengths(128, 1024, 60, 1), random_lengths(128, 1024, 60, 1));
  EXPECT_NE(random_lengths(128, 1024, 60, 1), random_lengths(128, 1024, 60, 2));
}

TEST(Replay, FindsWhatATraceTakes) {
  const Trace trace = trace_of("a,1,3000000,0,0,rec\na,2,3000000,0,0,rec\nf,1,0,0,0,rec\na,3,2000000,0,0,rec\n");
  for (const memory::Strategy& strategy : memory::strategies()) {
    const auto found =
        replay(make_script(trace, std::vector<unsigned>{0, 0, 0}), {.strategy = &strategy, .timed_ms = 0});
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->strategy, strategy.name);
    EXPECT_FALSE(found->failure);
    EXPECT_EQ(found->operations, 16U);
    EXPECT_EQ(found->rounds, 5U);
    EXPECT_GT(found->nanoseconds.value_or(0), 0);
    EXPECT_GT(found->first_nanoseconds.value_or(0), 0);
    EXPECT_EQ(found->peak_requested, Bytes(6'000'000));
    EXPECT_GE(found->peak_reserved, found->peak_live);
    EXPECT_LE(found->utilization(), 1);
    EXPECT_GT(found->driver_calls, 0U);
    EXPECT_EQ(found->at_peak.live, found->peak_live);
    EXPECT_EQ(found->at_end.frees, 7U);
    ASSERT_FALSE(found->samples.empty());
    EXPECT_EQ(found->samples.back().operation, found->operations);
    for (std::size_t i = 1; i < found->samples.size(); ++i)
      EXPECT_LT(found->samples[i - 1].operation, found->samples[i].operation);
  }
}

TEST(Replay, RunningOutOfMemoryIsAFinding) {
  const Trace trace = trace_of("a,1,4000000,0,0,rec\na,2,8000000,0,0,rec\n");
  const auto found = replay(make_script(trace, std::vector<unsigned>{0}), {.device_memory = 6_MiB});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->failure);
  EXPECT_EQ(found->failure->operation, 1U);
  EXPECT_EQ(found->failure->size, Bytes(8'000'000));
  EXPECT_EQ(found->failure->error.code, ErrorCode::unsatisfied);
  EXPECT_EQ(found->rounds, 0U);
  EXPECT_FALSE(found->first_nanoseconds);
  EXPECT_EQ(found->peak_requested, Bytes(4'000'000));
}

TEST(Replay, WhatFitsOnlyOnceIsTimedOnce) {
  int only_once = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    std::string rows;
    for (unsigned id = 1; id <= 80; ++id) {
      rows += fmt::format("a,{},{},0,0,rec\n", id, 1000 + random() % 6'000'000);
      if (id > 8) rows += fmt::format("f,{},0,0,0,rec\n", id - 8);
    }
    const Trace trace = trace_of(rows);
    const Script script = make_script(trace, std::vector<unsigned>{0});
    const auto roomy = replay(script, {.rounds = 1, .timed_ms = 0});
    ASSERT_TRUE(roomy);
    EXPECT_TRUE(roomy->nanoseconds && roomy->first_nanoseconds);
    for (const Bytes spare : {2_MiB, 4_MiB, 8_MiB, 12_MiB, 16_MiB}) {
      const auto tight = replay(script, {.strategy = memory::find_strategy("greedy"),
                                         .device_memory = roomy->peak_live + spare,
                                         .rounds = 1,
                                         .timed_ms = 0});
      ASSERT_TRUE(tight) << tight.error().message;
      EXPECT_EQ(tight->failure.has_value(), tight->rounds == 0) << seed;
      EXPECT_EQ(tight->first_nanoseconds.has_value(), tight->rounds != 0) << seed;
      if (tight->first_nanoseconds && !tight->nanoseconds) ++only_once;
    }
  }
  EXPECT_GT(only_once, 0);
}

TEST(Replay, RefusesMoreStreamsThanAPoolServes) {
  const auto on_streams = [](unsigned streams) {
    std::string rows;
    for (unsigned i = 1; i <= streams; ++i) rows += "a," + std::to_string(i) + ",64," + std::to_string(i) + ",0,rec\n";
    return trace_of(rows);
  };
  const std::vector<unsigned> once{0};
  const auto fine = replay(make_script(on_streams(1024), once), {.rounds = 1, .timed_ms = 0});
  ASSERT_TRUE(fine) << fine.error().message;
  EXPECT_FALSE(fine->failure);
  const Trace many = on_streams(1025);
  const Script script = make_script(many, once);
  const auto refused = replay(script, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().message, "the trace is on 1025 streams, but a pool serves at most 1024");
  EXPECT_FALSE(record(many, script, {}));
}

TEST(Replay, ARequestLargerThanTheDeviceIsAFinding) {
  const Trace trace = trace_of("a,1,17592186044416,0,0,rec\n");
  const auto found = replay(make_script(trace, std::vector<unsigned>{0}), {.device_memory = 6_MiB});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->failure);
  EXPECT_EQ(found->failure->operation, 0U);
}

TEST(Fragmentation, IsTheShareThatCannotBeHadAtOnce) {
  memory::PoolStatus status{
      .reserved = 12_MiB, .live = 6_MiB, .requested = 3_MiB, .cached = 2_MiB, .free = 4_MiB, .largest_free = 1_MiB};
  EXPECT_DOUBLE_EQ(external_fragmentation(status), 0.75);
  EXPECT_DOUBLE_EQ(internal_fragmentation(status), 0.5);
  EXPECT_DOUBLE_EQ(external_fragmentation({}), 0);
  EXPECT_DOUBLE_EQ(internal_fragmentation({}), 0);
}

TEST(Replay, RealTracesTakeWhatTheirRecordersSaw) {
  // Source of the peaks: the PyTorch snapshots that the traces were made of, in MiB.
  for (const auto& [name, peak] :
       {std::pair{"we_medium_512_training.csv", 11'851.0}, {"we_medium_1024_training.csv", 23'085.8}}) {
    const auto file = gpuwarden::testing::corpus_file(std::filesystem::path("memtraces") / name);
    if (!file) GTEST_SKIP() << "the reduced corpus has no " << name;
    const auto content = read_file(*file);
    ASSERT_TRUE(content) << content.error().message;
    const auto trace = read_trace(*content, name);
    ASSERT_TRUE(trace) << trace.error().message;
    const auto found = replay(make_script(*trace, std::vector<unsigned>{0}), {.rounds = 1, .timed_ms = 0});
    ASSERT_TRUE(found && !found->failure);
    EXPECT_NEAR(ratio(found->peak_live, 1_MiB), peak, 1) << name;
    EXPECT_GE(found->utilization(), 0.985) << name;
  }
}

}  // namespace
}  // namespace gpuwarden::memtrace
