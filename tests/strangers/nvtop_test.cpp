// SPDX-License-Identifier: Apache-2.0
// nvtop (C, curses) on the fleet: its screen is read as a person would read it.
#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "strangers/strangers.hpp"
#include "strangers/terminal.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

std::string gibibytes(unsigned long long mib) { return fmt::format("{:.3f}Gi", static_cast<double>(mib) / 1024); }

/// What the screen says of a GPU: the lines under its heading.
std::string device_part(const Screen& screen, std::size_t index, const std::string& name) {
  const auto [row, column] = screen.find(fmt::format("Device {} [{}]", index, name));
  return row < 0 ? "" : screen.block(row, column, 3, 90);
}

std::string process_line(const Screen& screen, int pid) {
  for (const std::string& line : screen.lines()) {
    const auto words = split_words(line);
    if (!words.empty() && words[0] == std::to_string(pid)) return line;
  }
  return "";
}

/// What is missing on the screen, or nothing.
std::string missing(const Screen& screen, const std::vector<KnownGpu>& gpus) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const KnownGpu& gpu = gpus[i];
    const std::string part = device_part(screen, i, gpu.name);
    for (const std::string& wanted :
         {fmt::format("TEMP {:3}", gpu.temperature),
          fmt::format("{:3} / {:3} W", gpu.power_watts, gpu.power_limit_watts),
          fmt::format("{}%] MEM[", gpu.utilization.value()),
          fmt::format("{}/{}]", gibibytes(gpu.memory_taken_mib), gibibytes(gpu.memory_total_mib))}) {
      if (!part.contains(wanted)) return fmt::format("GPU {}: '{}'", i, wanted);
    }
    for (const KnownProcess& process : gpu.processes) {
      const std::string line = process_line(screen, process.pid);
      const auto words = split_words(line);
      // PID USER DEV TYPE GPU MEMORY ...
      if (words.size() < 6 || words[2] != std::to_string(i) || words[3] != "Compute" ||
          !line.contains(fmt::format(" {}MiB ", process.memory_mib))) {
        return fmt::format("process {} with {}MiB on GPU {}", process.pid, process.memory_mib, i);
      }
    }
  }
  return "";
}

class Nvtop : public Strangers {
 protected:
  static std::vector<std::string> argv() { return {"nvtop", "--no-color", "--no-plot", "--delay", "2"}; }

  /// Waits until the screen shows the GPUs.
  static void expect_shown(Terminal& terminal, const std::vector<KnownGpu>& gpus) {
    EXPECT_TRUE(terminal.shows([&](const Screen& screen) { return missing(screen, gpus).empty(); }, kSoon))
        << "not shown: " << missing(terminal.screen(), gpus) << "\n"
        << terminal.screen().text();
  }
};

TEST_F(Nvtop, ShowsTheFleetAsGpuwardenDoes) {
  if (!is_installed("nvtop")) GTEST_SKIP() << "nvtop is not installed";
  const auto gpus = known();
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_EQ(gpus[0].processes.size(), 2U);
  const Command command = on_the_fleet(argv());
  Terminal terminal(command.argv, *command.environment);
  expect_shown(terminal, gpus);
  EXPECT_TRUE(device_part(terminal.screen(), 0, gpus[0].name).contains("FAN N/A%")) << terminal.screen().text();
  EXPECT_TRUE(device_part(terminal.screen(), 1, gpus[1].name).contains("FAN  43%")) << terminal.screen().text();
  terminal.type("q");
  EXPECT_EQ(terminal.exit_code(kSoon), 0);
}

TEST_F(Nvtop, FollowsTheFleetWhileItRuns) {
  if (!is_installed("nvtop")) GTEST_SKIP() << "nvtop is not installed";
  const Command command = on_the_fleet(argv());
  Terminal terminal(command.argv, *command.environment);
  expect_shown(terminal, known_to_the_fleet());
  const int gone = worker(2).pid();
  worker(2).kill();
  worker(2).wait();
  nvml().call({{"op", "set"}, {"gpu", 1}, {"field", "temperature"}, {"value", 71}});
  nvml().call({{"op", "set"}, {"gpu", 1}, {"field", "utilization"}, {"value", 3}});
  const auto after = known_to_the_fleet();
  EXPECT_TRUE(after[1].processes.empty());
  expect_shown(terminal, after);
  EXPECT_TRUE(terminal.shows([&](const Screen& screen) { return process_line(screen, gone).empty(); }, kSoon))
      << terminal.screen().text();
}

TEST_F(Nvtop, ReadsTheProcessListsOfEveryDriver) {
  if (!is_installed("nvtop")) GTEST_SKIP() << "nvtop is not installed";
  const auto gpus = known_to_the_fleet();
  for (const int profile : nvml::kProfiles) {
    SCOPED_TRACE(profile);
    const Command command = with_driver(profile, argv());
    Terminal terminal(command.argv, *command.environment);
    expect_shown(terminal, gpus);
  }
}

}  // namespace
}  // namespace gpuwarden::testing
