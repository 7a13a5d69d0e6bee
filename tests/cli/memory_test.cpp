// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory, end to end.
#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "memtrace/snapshots.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;

class Memory : public Program {
 protected:
  std::string csv() const {
    return file(
        "trace.csv",
        "op,id,size,stream,time_us,phase\n"
        "a,1,3000000,0,0,pre\na,2,5000000,0,1,rec\na,3,700,0,2,rec\nf,2,5000000,0,3,rec\na,4,4000000,0,4,rec\n");
  }
  std::string symbolic() const {
    return file("symbolic.csv", "op,id,phase,c0,c1,c2\na,1,rec,0,1000000,0\nf,1,rec,0,0,0\n");
  }
};

TEST_F(Memory, ReplayTellsWhatATraceTakes) {
  const auto found = json({"memory", "replay", csv(), "--repeat", "3"});
  EXPECT_EQ(found["schema"], 1);
  EXPECT_EQ(found["simulated"], true);
  EXPECT_EQ(found["strategy"], "balanced");
  EXPECT_EQ(found["peak_requested_bytes"], 8'000'700);
  EXPECT_EQ(found["peak_live_bytes"], 15'628 * 512);
  EXPECT_GE(found["peak_reserved_bytes"], found["peak_live_bytes"]);
  EXPECT_EQ(found["peak_reserved_bytes"].get<std::uint64_t>() % (2U << 20U), 0U) << "whole pages";
  EXPECT_GT(found["ns_per_operation"], 0);
  EXPECT_GT(found["driver_calls"], 0);
  EXPECT_EQ(found["driver_calls_last_repeat"], 0) << "a step that repeats itself needs no driver";
  EXPECT_EQ(found["operations"], 5 + 2 * 6);
  EXPECT_EQ(found["steps"], 3);
  EXPECT_EQ(found["out_of_memory"], nullptr);
  EXPECT_EQ(found["trace"]["format"], "CSV of allocations");
  EXPECT_EQ(found["trace"]["live_before"], 1);
  EXPECT_EQ(found["strategies"].size(), 1U);
}

TEST_F(Memory, ReplayComparesStrategiesAndDrawsAChart) {
  const auto done = run({"memory", "replay", csv(), "--strategy", "all"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  for (const char* word :
       {"balanced", "steady", "greedy", "consolidated", "fragmentation_aware", "SIMULATED device of 80 GiB",
        "4 events, 1 blocks live before, 1 stream", "# live  + reserved", "5 operations"})
    EXPECT_THAT(done.standard_output, HasSubstr(word));
  EXPECT_EQ(json({"memory", "replay", csv(), "--strategy", "all"})["strategies"].size(), 5U);
}

TEST_F(Memory, ReplayReadsPicklesPackedOrNotAndFromStandardInput) {
  const std::string data = pickle(snapshot({event("alloc", 4096, 1000), event("free_completed", 8192, 600)}), 4);
  const auto from_file = json({"memory", "replay", file("x.pickle", data)});
  EXPECT_EQ(from_file["trace"]["format"], "PyTorch snapshot (pickle)");
  EXPECT_EQ(from_file["peak_requested_bytes"], 1600);
  const auto piped = run({"memory", "replay", "-", "--json"}, data);
  EXPECT_EQ(Json::parse(piped.standard_output)["peak_requested_bytes"], 1600) << piped.standard_error;
  ASSERT_TRUE(run_patiently({.argv = {"gzip", (dir_ / "x.pickle").string()}}));
  EXPECT_EQ(json({"memory", "replay", (dir_ / "x.pickle.gz").string()})["peak_requested_bytes"], 1600);
}

TEST_F(Memory, ReplayRunsNothingOfAPickle) {
  const std::string evil = file("evil.pickle", "cposix\nsystem\n(S'touch " + (dir_ / "ran").string() + "'\ntR.");
  expect_error({"memory", "replay", evil}, 2, "is not a known format of allocation trace");
  const std::string hidden =
      file("hidden.pickle", "\x80\x04]cposix\nsystem\n(S'touch " + (dir_ / "ran").string() + "'\ntRe.");
  expect_error({"memory", "replay", hidden}, 2, "refused: byte 3 (GLOBAL) asks for posix.system");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "ran"));
}

TEST_F(Memory, ReplayNeedsALengthWhereSizesDependOnIt) {
  expect_error({"memory", "replay", symbolic()}, 2, "depend on the length of a sequence");
  EXPECT_EQ(json({"memory", "replay", symbolic(), "--tokens", "7"})["peak_requested_bytes"], 7'000'000);
  const auto random = json({"memory", "replay", symbolic(), "--random-lengths", "3..5", "--steps", "40"});
  EXPECT_EQ(random["steps"], 40);
  EXPECT_EQ(random["peak_requested_bytes"], 5'000'000);
  expect_error({"memory", "replay", csv(), "--tokens", "7"}, 2, "the sizes in this trace are fixed");
  expect_error({"memory", "replay", symbolic(), "--random-lengths", "5..3"}, 2, "not a range of lengths");
  expect_error({"memory", "replay", symbolic(), "--tokens", "3", "--random-lengths", "3..5"}, 2,
               "cannot be used together");
  expect_error({"memory", "replay", csv(), "--seed", "3"}, 2, "--seed requires --random-lengths");
  expect_error({"memory", "replay", csv(), "--snapshot", "x.txt"}, 2, "no known format ends like 'x.txt'");
  expect_error({"memory", "replay", csv(), "--watch"}, 2,
               "memory replay takes no --watch\nhint: --watch is an option of gpuwarden memory status\n");
  expect_error({"memory", "replay", csv(), "-i", "0"}, 2, "--gpu is an option of gpuwarden memory status\n");
  expect_error({"memory", "--repeat", "3"}, 2,
               "memory status takes no --repeat\nhint: --repeat is an option of gpuwarden memory replay");
  expect_error({"memory", "trace", "--snapshot", "x", "--", "true"}, 2, "an option of gpuwarden memory replay");
}

TEST_F(Memory, ReplayThatRunsOutOfMemorySaysWhereAndFails) {
  const auto done = run({"memory", "replay", csv(), "--device-memory", "6MiB", "--json"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_error, HasSubstr("operation 2: "));
  const auto found = Json::parse(done.standard_output);
  EXPECT_EQ(found["out_of_memory"]["operation"], 2);
  EXPECT_EQ(found["out_of_memory"]["requested_bytes"], 5'000'000);
  EXPECT_EQ(found["ns_per_operation"], nullptr);
}

TEST_F(Memory, ReplayWritesSnapshotsThatCanBeReplayed) {
  for (const char* name : {"pool.json", "pool.pickle"}) {
    const std::string written = (dir_ / name).string();
    const auto first = json({"memory", "replay", csv(), "--snapshot", written});
    const auto again = json({"memory", "replay", written});
    EXPECT_EQ(again["peak_requested_bytes"], first["peak_requested_bytes"]) << name;
    EXPECT_EQ(again["trace"]["recorded"]["peak_reserved_bytes"], first["peak_reserved_bytes"]) << name;
  }
  const auto done = run({"memory", "replay", (dir_ / "pool.pickle").string()});
  EXPECT_THAT(done.standard_output, HasSubstr("PyTorch snapshot (pickle), 5 events"));
  EXPECT_THAT(done.standard_output, HasSubstr("as recorded"));
  expect_error({"memory", "replay", csv(), "--snapshot", (dir_ / "none" / "x.json").string()}, 2, "none/x.json");
}

TEST_F(Memory, ReplayWritesAPage) {
  const auto page = dir_ / "page.html";
  ASSERT_EQ(run({"memory", "replay", csv(), "--timeline", page.string()}).exit_code, 0);
  const auto content = read_file(page);
  ASSERT_TRUE(content);
  EXPECT_THAT(*content, HasSubstr("trace.csv with balanced</title>"));
  EXPECT_THAT(*content, HasSubstr("SIMULATED device of 80 GiB"));
  EXPECT_EQ(run({"memory", "replay", csv(), "--chart", page.string()}).exit_code, 0) << "by its other name";
}

TEST_F(Memory, WrongUsageIsTold) {
  expect_error({"memory", "frobnicate"}, 2, "unknown action 'frobnicate'");
  expect_error({"memory", "replay"}, 2, "no trace is given");
  expect_error({"memory", "replay", "a", "b"}, 2, "one trace, not 2");
  expect_error({"memory", "replay", "/nonexistent.csv"}, 2, "/nonexistent.csv");
  expect_error({"memory", "replay", csv(), "--strategy", "best"}, 2, "unknown strategy 'best'");
  expect_error({"memory", "replay", csv(), "--repeat", "0"}, 2, "--repeat must be at least 1");
  expect_error({"memory", "replay", csv(), "--device-memory", "much"}, 2, "--device-memory");
  expect_error({"memory", "replay", file("bad.csv", "op,id,size\na,1,64\nf,2,64\n")}, 2,
               "line 3: id 2 frees what was never");
}

}  // namespace
}  // namespace gpuwarden::testing
