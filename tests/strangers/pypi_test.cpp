// SPDX-License-Identifier: Apache-2.0
// nvidia-ml-py and nvitop of PyPI on the fleet.
#include <map>
#include <optional>

#include "gpuwarden/base/text.hpp"
#include "strangers/strangers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using nvml::Json;
using ::testing::HasSubstr;
using ::testing::Not;

class PyPi : public Strangers {
 protected:
  static std::string output_of(const Command& command) {
    const auto done = run_patiently(command);
    if (!done || done->exit_code != 0) {
      ADD_FAILURE() << (done ? done->standard_output + done->standard_error : done.error().message);
      return "";
    }
    return done->standard_output + done->standard_error;
  }
  Json walk(const Command& command) const {
    const std::string text = output_of(command);
    return text.empty() ? Json{{"functions", Json::object()}, {"gpus", Json::array()}} : Json::parse(text);
  }
  static std::vector<std::string> walker() { return {python_of_strangers(), GPUWARDEN_STRANGERS_DIR "/walk_nvml.py"}; }
};

void expect_same(const Json& shown, const KnownGpu& known) {
  EXPECT_EQ(shown["name"].get<std::string>(), known.name);
  EXPECT_EQ(shown["uuid"].get<std::string>(), known.uuid);
  EXPECT_EQ(shown["memory_total"].get<unsigned long long>() >> 20U, known.memory_total_mib);
  EXPECT_EQ(shown["memory_used"].get<unsigned long long>() >> 20U, known.memory_taken_mib);
  EXPECT_EQ(shown["temperature"].get<int>(), known.temperature);
  EXPECT_EQ(shown["utilization"].get<int>(), known.utilization);
  EXPECT_EQ(shown["power_milliwatts"].get<int>() / 1000, known.power_watts);
  EXPECT_EQ(shown["power_limit_milliwatts"].get<int>() / 1000, known.power_limit_watts);
  std::map<int, unsigned long long> expected;
  std::map<int, unsigned long long> seen;
  for (const KnownProcess& process : known.processes) expected[process.pid] = process.memory_mib;
  for (const Json& process : shown["processes"])
    seen[process["pid"]] = process["memory"].get<unsigned long long>() >> 20U;
  EXPECT_EQ(seen, expected);
}

/// A number of a map; nothing where it is missing or null.
std::optional<double> number_of(const Json& map, const char* key) {
  const auto found = map.find(key);
  if (found == map.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void expect_readings(const Json& shown, const Json& readings) {
  EXPECT_EQ(number_of(shown, "clock_sm"), number_of(readings, "clock_sm"));
  EXPECT_EQ(number_of(shown, "clock_memory"), number_of(readings, "clock_memory"));
  EXPECT_EQ(number_of(shown, "memory_reserved").value_or(0) / (1 << 20), number_of(readings, "memory_reserved"));
  EXPECT_EQ(shown.at("power_limit_range").at(0).get<double>() / 1000, number_of(readings, "power_limit_min"));
  EXPECT_EQ(shown.at("power_limit_range").at(1).get<double>() / 1000, number_of(readings, "power_limit_max"));
  EXPECT_EQ(number_of(shown, "ecc_corrected"), number_of(readings, "ecc_corrected_volatile"));
}

TEST_F(PyPi, NvidiaMlPyTellsWhatGpuwardenTells) {
  if (!is_installed(python_of_strangers())) GTEST_SKIP() << "the packages of PyPI are not installed";
  nvml().call({{"op", "set"}, {"gpu", 0}, {"field", "ecc_corrected_volatile"}, {"value", 17}});
  const auto gpus = known();
  const auto fields = readings();
  const Json told = walk(on_the_fleet(walker()));
  ASSERT_EQ(told["gpus"].size(), gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(told["gpus"][i], gpus[i]);
    expect_readings(told["gpus"][i], fields[i]);
  }
}

TEST_F(PyPi, NoFunctionOfNvidiaMlPyCrashesOrHangs) {
  if (!is_installed(python_of_strangers())) GTEST_SKIP() << "the packages of PyPI are not installed";
  const Json told = walk(with_driver(580, walker()));
  std::map<std::string, int> outcomes;
  int missing = 0;
  for (const auto& [name, answer] : told["functions"].items()) {
    const std::string outcome = answer["outcome"];
    EXPECT_TRUE(outcome == "value" || outcome == "nvml" || outcome == "python") << name << ": " << answer.dump();
    ++outcomes[outcome];
    missing += answer["detail"] == "NVMLError_FunctionNotFound" ? 1 : 0;
  }
  // This nvidia-ml-py is of driver 615: it knows some functions that 580 had not yet.
  EXPECT_GT(outcomes["value"], 80);
  EXPECT_GT(outcomes["value"] + outcomes["nvml"], 350);
  EXPECT_LT(missing, 40);
}

TEST_F(PyPi, NvitopShowsEveryGpu) {
  const std::string nvitop = GPUWARDEN_STRANGERS_PYTHON "/bin/nvitop";
  if (!is_installed(nvitop)) GTEST_SKIP() << "the packages of PyPI are not installed";
  const auto gpus = known();
  for (const int profile : {535, 550, 580}) {
    SCOPED_TRACE(profile);
    const std::string shown = output_of(with_driver(profile, {nvitop, "-1", "--ascii"}));
    EXPECT_THAT(shown, Not(HasSubstr("Traceback")));
    EXPECT_THAT(shown, Not(HasSubstr("FunctionNotFound")));
    for (const KnownGpu& gpu : gpus) {
      EXPECT_THAT(shown, HasSubstr(std::to_string(gpu.temperature) + "C"));
      EXPECT_THAT(shown,
                  HasSubstr(std::to_string(gpu.power_watts) + "W / " + std::to_string(gpu.power_limit_watts) + "W"));
      for (const KnownProcess& process : gpu.processes) EXPECT_THAT(shown, HasSubstr(std::to_string(process.pid)));
    }
  }
}

}  // namespace
}  // namespace gpuwarden::testing
