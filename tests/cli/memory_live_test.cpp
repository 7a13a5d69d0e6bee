// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory on a fleet: who holds what, and programs traced.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr std::string_view kPoolsFleet = R"(name: lab
driver: 550.54.15
cuda: "12.4"
clock: {frozen: true}
cuda_context_memory: 0MiB
gpus:
  - model: NVIDIA H100 80GB HBM3
    processes: [{pid: 4194001, user: ada, command: python train.py, memory: 60GiB}, {pid: 4194002, user: bob, command: ollama serve, memory: 9GiB}]
  - model: NVIDIA H100 80GB HBM3
)";

class MemoryLive : public Program {
 protected:
  MemoryLive() {
    environment_["GPUWARDEN_SIM_CUDA_LATENCY"] = "off";
    environment_.erase("LD_LIBRARY_PATH");
    environment_.erase("LD_PRELOAD");
    fleet_ = file("lab.yaml", kPoolsFleet);
  }
  std::string fleet_;
};

TEST_F(MemoryLive, TellsWhoHoldsHowMuch) {
  const auto done = run({"memory", "--simulate", fleet_});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("SIMULATED lab"));
  const auto ada = done.standard_output.find("python train.py");
  const auto bob = done.standard_output.find("ollama serve");
  ASSERT_NE(ada, std::string::npos);
  ASSERT_NE(bob, std::string::npos);
  EXPECT_LT(ada, bob) << "most memory first";
  EXPECT_THAT(done.standard_output, HasSubstr("60 GiB"));
  const auto found = json({"memory", "--simulate", fleet_, "-i", "0"});
  EXPECT_EQ(found["simulated"], true);
  ASSERT_EQ(found["gpus"].size(), 1U);
  EXPECT_EQ(found["gpus"][0]["processes"][0]["memory_bytes"], std::uint64_t{60} << 30U);
  EXPECT_TRUE(found["gpus"][0]["unaccounted_bytes"].is_number());
  EXPECT_TRUE(found["gpus"][0]["memory"].contains("reserved_bytes"));
  expect_error({"memory", "--simulate", fleet_, "-i", "9"}, 2, "there is no GPU '9'");
}

TEST_F(MemoryLive, TellsWhatIsBehindAPoolsMemory) {
  environment_["GPUWARDEN_MEMORY_STATUS"] = "5ms";
  // All that was done after the beginning. A file that is being written has a dot in its name.
  const std::string waits = fmt::format(
      "file={0}/$(ls {0} | grep -v '[.]'); "
      "until grep -q 'allocations 2' $file && grep -q 'live_bytes 41943040' $file; do sleep 0.01; done; ",
      (dir_ / "pools").string());
  const std::string shows = fmt::format("{} memory --simulate {}", GPUWARDEN_PROGRAM, fleet_);
  const auto done = run({"sim", "exec", "--fleet", fleet_, "--", GPUWARDEN_POOL_HOLDER,
                         waits + "COLUMNS=200 " + shows + "; " + shows + " --json >" + (dir_ / "json").string()});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto process = done.standard_output.find("pool_holder");
  const auto pool = done.standard_output.find("pool: live 40 MiB, cached ");
  ASSERT_NE(process, std::string::npos) << done.standard_output;
  ASSERT_NE(pool, std::string::npos) << done.standard_output;
  EXPECT_LT(process, pool) << "below its process";
  EXPECT_THAT(done.standard_output, HasSubstr("limit 1 GiB, balanced\n"));
  const auto found = Json::parse(read_file(dir_ / "json").value_or(""), nullptr, false);
  ASSERT_EQ(found["gpus"].size(), 2U) << found.dump();
  const Json& pools = found["gpus"][0]["pools"];
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0]["live_bytes"], 40U << 20U);
  EXPECT_EQ(pools[0]["limit_bytes"], 1U << 30U);
  EXPECT_EQ(pools[0]["strategy"], "balanced");
  EXPECT_GE(pools[0]["external_fragmentation"], 0.0);
  bool listed = false;
  for (const Json& one : found["gpus"][0]["processes"]) listed = listed || one["pid"] == pools[0]["pid"];
  EXPECT_TRUE(listed);
  EXPECT_EQ(found["gpus"][1]["pools"], Json::array());
}

TEST_F(MemoryLive, LeavesOutThePoolsOfProcessesThatAreGone) {
  environment_["GPUWARDEN_MEMORY_STATUS"] = "on";
  const auto killed = run({"sim", "exec", "--fleet", fleet_, "--", "sh", "-c",
                           fmt::format("{} 'kill -9 $PPID'; true", GPUWARDEN_POOL_HOLDER)});
  EXPECT_EQ(killed.exit_code, 0) << killed.standard_error;
  ASSERT_EQ(list_directory(dir_ / "pools").size(), 1U) << "it had no time to clean up";
  EXPECT_EQ(json({"memory", "--simulate", fleet_})["gpus"][0]["pools"], Json::array());
  EXPECT_TRUE(list_directory(dir_ / "pools").empty());
}

TEST_F(MemoryLive, WatchesUntilItHasShownEnough) {
  const auto done = run({"memory", "--simulate", fleet_, "--watch=10ms", "--count", "3", "--json"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  std::istringstream lines(done.standard_output);
  std::size_t readings = 0;
  for (std::string line; std::getline(lines, line); ++readings) EXPECT_EQ(Json::parse(line)["gpus"].size(), 2U);
  EXPECT_EQ(readings, 3U);
  expect_error({"memory", "--count", "3", "--simulate", fleet_}, 2, "--count requires --watch");
  expect_error({"memory", "--watch=0s", "--simulate", fleet_}, 2, "the interval must be greater than 0");
}

#ifndef GPUWARDEN_SANITIZED
TEST_F(MemoryLive, TracesAProgramsAllocationsHoweverItCallsTheDriver) {
  const std::string trace = (dir_ / "t.csv").string();
  const auto done = run({"memory", "trace", "--simulate", fleet_, "-o", trace, "--", GPUWARDEN_CUDA_ALLOCATOR, "7"});
  EXPECT_EQ(done.exit_code, 7) << "the program's own: " << done.standard_error << done.standard_output;
  EXPECT_THAT(done.standard_output, HasSubstr("pid "));
  EXPECT_THAT(done.standard_error,
              HasSubstr("t.csv: 4 allocations, 3 frees, at most 13 MiB live, 5 MiB live at the end"));
  EXPECT_THAT(done.standard_error, HasSubstr("GPUWARDEN_MEMORY_TRACE"));
  const auto found = json({"memory", "replay", trace});
  EXPECT_EQ(found["peak_requested_bytes"], 13U << 20U);
  EXPECT_EQ(found["trace"]["streams"], 2);
}

TEST_F(MemoryLive, TracesOfSeveralProcessesAreToldApart) {
  const std::string trace = (dir_ / "t.csv").string();
  const std::string twice = std::string(GPUWARDEN_CUDA_ALLOCATOR) + "; " + GPUWARDEN_CUDA_ALLOCATOR;
  const auto done =
      run({"memory", "trace", "--simulate", fleet_, "-o", trace, "--json", "--", "sh", "-c", twice + "; exit 3"});
  EXPECT_EQ(done.exit_code, 3) << done.standard_error;
  const auto found = Json::parse(done.standard_output.substr(done.standard_output.find('{')));
  ASSERT_EQ(found["traces"].size(), 2U);
  for (const Json& one : found["traces"]) {
    EXPECT_EQ(one["allocations"], 4);
    EXPECT_EQ(one["live_at_end_bytes"], 5U << 20U);
    EXPECT_TRUE(one["file"].get<std::string>().starts_with(trace + "."));
    EXPECT_TRUE(std::filesystem::exists(one["file"].get<std::string>()));
  }
  EXPECT_EQ(found["exit_code"], 3);
}
#endif

TEST_F(MemoryLive, TraceOfAProgramWithoutAGpuSaysSo) {
  const auto done = run({"memory", "trace", "-o", (dir_ / "t.csv").string(), "--", "true"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_error, HasSubstr("no allocation of GPU memory was seen in true"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "t.csv"));
  EXPECT_EQ(run({"memory", "trace", "-o", (dir_ / "t.csv").string(), "--", (dir_ / "none").string()}).exit_code, 127);
  expect_error({"memory", "trace"}, 2, "no command was given");
  expect_error({"memory", "trace", "-o", (dir_ / "none" / "t.csv").string(), "--", "true"}, 2, "none/t.csv");
}

}  // namespace
}  // namespace gpuwarden::testing
