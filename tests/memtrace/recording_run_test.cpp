// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/recording_run.hpp"

#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::memtrace {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::put;

constexpr std::string_view kLeftTrace = "op,id,size\na,1,1024\na,2,512\nf,1,0\n";

TEST(PreloadLibrary, IsTheOneThatIsNamedIfItIsThere) {
  const testing::TempDir dir;
  put(dir / "own.so", "");
  EXPECT_EQ(preload_library({{"GPUWARDEN_MEMTRACE_LIBRARY", (dir / "own.so").string()}}), dir / "own.so");
  EXPECT_THAT(preload_library({{"GPUWARDEN_MEMTRACE_LIBRARY", (dir / "other.so").string()}}),
              FailsWith(ErrorCode::unavailable, HasSubstr("there is no " + (dir / "other.so").string())));
}

TEST(TracedEnvironment, PutsTheLibraryBeforeThoseThatAreThere) {
  const Environment alone = traced_environment({}, "/lib/trace.so", "/tmp/t.csv.part");
  EXPECT_EQ(alone, (Environment{{"LD_PRELOAD", "/lib/trace.so"}, {"GPUWARDEN_MEMTRACE_FILE", "/tmp/t.csv.part"}}));
  EXPECT_EQ(traced_environment({{"LD_PRELOAD", "/lib/a.so"}}, "/lib/trace.so", "/x").at("LD_PRELOAD"),
            "/lib/trace.so:/lib/a.so");
}

TEST(CollectTraces, AProgramsOnlyTraceGetsTheName) {
  const testing::TempDir dir;
  put(dir / "t.csv.part.77", kLeftTrace);
  put(dir / "other.csv", kLeftTrace);
  const auto all = collect_traces(dir / "t.csv.part", dir / "t.csv");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].file, dir / "t.csv");
  EXPECT_EQ(all[0].problem, "");
  EXPECT_EQ(all[0].allocations, 2U);
  EXPECT_EQ(all[0].at_end, Bytes(512));
  EXPECT_FALSE(std::filesystem::exists(dir / "t.csv.part.77"));
}

TEST(CollectTraces, OfSeveralProcessesTheChildrenKeepTheirPids) {
  const testing::TempDir dir;
  put(dir / "t.csv.part", kLeftTrace);
  put(dir / "t.csv.part.78", "not a trace");
  const auto all = collect_traces(dir / "t.csv.part", dir / "t.csv");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].file, dir / "t.csv");
  EXPECT_EQ(all[1].file, dir / "t.csv.78");
  EXPECT_NE(all[1].problem, "");
}

TEST(CollectTraces, AProgramThatAllocatedNothingLeavesNone) {
  const testing::TempDir dir;
  EXPECT_THAT(collect_traces(dir / "t.csv.part", dir / "t.csv"), ::testing::IsEmpty());
}

TEST(PrepareTracedRun, NamesTheFilesAndPutsTheLibraryIntoTheEnvironment) {
  const testing::TempDir dir;
  put(dir / "own.so", "");
  const Environment environment{{"GPUWARDEN_MEMTRACE_LIBRARY", (dir / "own.so").string()}};
  const auto run = prepare_traced_run(dir / "t.csv", environment);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->wanted, dir / "t.csv");
  EXPECT_EQ(run->environment.at("LD_PRELOAD"), (dir / "own.so").string());
  EXPECT_EQ(run->environment.at("GPUWARDEN_MEMTRACE_FILE"), run->part.string());
  EXPECT_TRUE(collect_traces(run->part, run->wanted).empty()) << "trying whether it can be written leaves nothing";
  EXPECT_FALSE(prepare_traced_run(dir / "no/such/folder/t.csv", environment).has_value());
  EXPECT_THAT(prepare_traced_run(dir / "t.csv", {{"GPUWARDEN_MEMTRACE_LIBRARY", "/no.so"}}),
              FailsWith(ErrorCode::unavailable, HasSubstr("/no.so")));
}

}  // namespace
}  // namespace gpuwarden::memtrace
