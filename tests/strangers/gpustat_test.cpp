// SPDX-License-Identifier: Apache-2.0
// gpustat (Python, through pynvml) on the fleet: Debian's, and the newest of PyPI.
#include <algorithm>

#include "strangers/strangers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using nvml::Json;

/// A gpustat: the program to look for, and how to start it.
struct Program {
  const char* name;
  std::string file;
  std::vector<std::string> argv;
  /// The first driver profile whose used memory it takes from NVML's second call, without the reserved part.
  int second_call_since;
};

class Gpustat : public Strangers, public ::testing::WithParamInterface<Program> {
 protected:
  static Json run(const Command& command) {
    const auto done = run_patiently(command);
    if (!done || done->exit_code != 0) {
      ADD_FAILURE() << (done ? done->standard_output + done->standard_error : done.error().message);
      return {{"gpus", Json::array()}};
    }
    return Json::parse(done->standard_output);
  }
  static std::vector<std::pair<int, unsigned long long>> processes(const Json& gpu) {
    std::vector<std::pair<int, unsigned long long>> all;
    for (const Json& process : gpu["processes"]) all.emplace_back(process["pid"], process["gpu_memory_usage"]);
    std::ranges::sort(all);
    return all;
  }
  static unsigned long long memory_of(const KnownGpu& known, int profile) {
    return profile >= GetParam().second_call_since ? known.memory_used_mib : known.memory_taken_mib;
  }
  static void expect_same(const Json& shown, const KnownGpu& known) {
    EXPECT_EQ(shown["uuid"], known.uuid);
    EXPECT_EQ(shown["name"], known.name);
    EXPECT_EQ(shown["temperature.gpu"], known.temperature);
    EXPECT_EQ(shown["utilization.gpu"], known.utilization.value());
    EXPECT_EQ(shown["power.draw"], known.power_watts);
    EXPECT_EQ(shown["enforced.power.limit"], known.power_limit_watts);
    EXPECT_EQ(shown["memory.total"], known.memory_total_mib);
    EXPECT_EQ(shown["memory.used"], memory_of(known, 550));
    std::vector<std::pair<int, unsigned long long>> expected;
    for (const KnownProcess& process : known.processes) expected.emplace_back(process.pid, process.memory_mib);
    EXPECT_EQ(processes(shown), expected);
  }
};

TEST_P(Gpustat, ShowsTheFleetAsGpuwardenDoes) {
  if (!is_installed(GetParam().file)) GTEST_SKIP() << GetParam().file << " is not installed";
  const Json shown = run(on_the_fleet(GetParam().argv));
  const auto gpus = known();
  ASSERT_EQ(gpus.size(), 3U);
  ASSERT_EQ(shown["gpus"].size(), gpus.size());
  EXPECT_EQ(shown["driver_version"], "550.54.15");
  EXPECT_EQ(gpus[0].processes.size(), 2U);
  EXPECT_EQ(gpus[0].memory_taken_mib, 40960U + 1536 + 551);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(shown["gpus"][i]["index"], i);
    expect_same(shown["gpus"][i], gpus[i]);
  }
  EXPECT_EQ(shown["gpus"][0]["fan.speed"], Json()) << "an H100 has no fan";
  EXPECT_EQ(shown["gpus"][1]["fan.speed"], 43);
}

TEST_P(Gpustat, SeesEachChange) {
  if (!is_installed(GetParam().file)) GTEST_SKIP() << GetParam().file << " is not installed";
  const auto before = known_to_the_fleet();
  const std::vector<std::pair<const char*, double>> changes{
      {"temperature", 79}, {"utilization", 11}, {"power", 333}, {"power_limit", 600}};
  for (const auto& [field, value] : changes) {
    nvml().call({{"op", "set"}, {"gpu", 0}, {"field", field}, {"value", value}});
  }
  worker(1).kill();
  worker(1).wait();
  const auto after = known_to_the_fleet();
  EXPECT_NE(after[0].temperature, before[0].temperature);
  EXPECT_EQ(after[0].processes.size(), 1U);
  expect_same(run(on_the_fleet(GetParam().argv))["gpus"][0], after[0]);
}

TEST_P(Gpustat, WorksWithEveryDriverThatItsPynvmlKnows) {
  if (!is_installed(GetParam().file)) GTEST_SKIP() << GetParam().file << " is not installed";
  const auto gpus = known_to_the_fleet();
  // Its process lists are _v2 and later; drivers before that show everything else.
  for (const int profile : {470, 535, 550, 580}) {
    SCOPED_TRACE(profile);
    const Json shown = run(with_driver(profile, GetParam().argv));
    ASSERT_EQ(shown["gpus"].size(), gpus.size());
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      EXPECT_EQ(shown["gpus"][i]["memory.used"], memory_of(gpus[i], profile));
      EXPECT_EQ(shown["gpus"][i]["temperature.gpu"], gpus[i].temperature);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Gpustat,
    ::testing::Values(Program{"Debian", "gpustat", {"gpustat", "--json"}, 999},
                      Program{"PyPI", python_of_strangers(), {python_of_strangers(), "-m", "gpustat", "--json"}, 535}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gpuwarden::testing
