// SPDX-License-Identifier: Apache-2.0
#include "memory/trace.hpp"

#include <fstream>

#include "memory/comparison.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::bench {
namespace {

/// Whether every free follows an allocation of its slot, and none is allocated twice.
bool is_sound(const Trace& trace) {
  std::vector<bool> live(trace.slots);
  for (const Operation& one : trace.operations) {
    if (one.slot >= trace.slots || live[one.slot] == (one.size != 0)) return false;
    live[one.slot] = one.size != 0;
  }
  return true;
}

TEST(Trace, ARepeatedTraceStartsEachStepWithWhatWasLiveBefore) {
  const testing::TempDir folder;
  const auto file = folder.path() / "t.csv";
  std::ofstream(file) << "op,id,size,stream,time_us,phase\na,1,1000,0,0,pre\na,2,600,0,0,rec\nf,1,1000,0,0,rec\n";
  const Trace once = read_trace(file, 1);
  EXPECT_EQ(once.operations.size(), 3U);
  EXPECT_EQ(once.peak_live, 2048U) << "in grains of 512";
  const Trace thrice = read_trace(file, 3);
  EXPECT_TRUE(is_sound(thrice));
  EXPECT_EQ(thrice.peak_live, once.peak_live);
}

TEST(Trace, ARowThatIsNoneIsNamed) {
  const testing::TempDir folder;
  const auto file = folder.path() / "t.csv";
  std::ofstream(file) << "op,id,size,stream,time_us,phase\na,1,1000,0,0,pre\na,two,600,0,0,rec\n";
  try {
    read_trace(file, 1);
    FAIL() << "it was read";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("t.csv: line 3: id 'two' is not a whole number")) << error.what();
  }
}

TEST(Trace, AFileThatIsNotThereIsNamed) {
  try {
    read_trace("/nowhere/t.csv", 1);
    FAIL() << "it was read";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string(error.what()).contains("/nowhere/t.csv")) << error.what();
  }
}

TEST(Trace, SizesOfASymbolicTraceFollowTheLength) {
  const testing::TempDir folder;
  const auto file = folder.path() / "t.csv";
  std::ofstream(file) << "op,id,phase,c0,c1,c2\na,1,rec,100,10,1\nf,1,rec,0,0,0\n";
  const Trace trace = read_symbolic(file, {128, 256});
  ASSERT_EQ(trace.operations.size(), 4U);
  EXPECT_EQ(trace.operations[0].size, 100U + 1280U + 16384U);
  EXPECT_EQ(trace.operations[2].size, 100U + 2560U + 65536U);
}

TEST(Trace, RandomLengthsStayInTheirRangeAndSteps) {
  for (const unsigned step : {1U, 64U}) {
    for (const unsigned length : random_lengths(500, 11, step)) {
      EXPECT_GE(length, 128U);
      EXPECT_LE(length, 1024U);
      EXPECT_EQ((length - 128) % step, 0U);
    }
  }
}

TEST(Trace, SyntheticTracesFreeOnlyWhatIsLiveAndKeepTheirBounds) {
  const Trace random = random_allocations(1000, 64 * kMiB);
  EXPECT_TRUE(is_sound(random));
  EXPECT_LE(random.operations.size(), 2000U);
  EXPECT_LE(random.peak_live, (std::uint64_t{16000} << 20U) + 1000 * 512);
  for (const bool paged : {false, true}) {
    const Trace server = serving(500, 1, paged);
    EXPECT_TRUE(is_sound(server));
    EXPECT_GT(server.operations.size(), 5000U);
  }
}

// Whoever takes part must complete a trace and own up to at least what is live.
TEST(Contenders, AllCompleteATraceAndReserveAtLeastWhatIsLive) {
  const Trace trace = random_allocations(1000, 4 * kMiB);
  for (const Contender& contender : contenders()) {
    const Outcome outcome = play_once(contender, trace);
    EXPECT_EQ(outcome.error, "") << contender.name;
    if (contender.abilities.device) {
      // Grains of 256 bytes may be smaller than the trace's.
      EXPECT_GT(outcome.footprint.peak_reserved, trace.peak_live / 100 * 99) << contender.name;
    }
  }
}

TEST(Contenders, AllRunOutOfMemoryAsSuchOnADeviceThatIsTooSmall) {
  const Trace trace = random_allocations(1000, 4 * kMiB);
  for (const Contender& contender : contenders()) {
    if (!contender.abilities.device) continue;
    const Outcome outcome = play_once(contender, trace, {.capacity = trace.peak_live / 2});
    EXPECT_NE(outcome.error, "") << contender.name;
    EXPECT_LE(outcome.footprint.peak_reserved, trace.peak_live / 2) << contender.name;
  }
}

}  // namespace
}  // namespace gpuwarden::bench
