// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/sources.hpp"

#include <unistd.h>

#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::view {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

/// This process, as a target. The signal 0 asks only whether one could be sent.
Target own_process() {
  const Pid self{::getpid()};
  const auto stat = parse_proc_stat(read_file("/proc/self/stat").value_or(""));
  return {.node = "n1", .pid = self, .start_ticks = stat ? std::optional(stat->start_ticks) : std::nullopt, .what = ""};
}

TEST(LocalActions, ARealProcessGetsItsSignalBesideASimulatedFleetToo) {
  const TempDir dir;
  LocalActions here({"/proc"}, nullptr);
  EXPECT_TRUE(here.signal(own_process(), 0));
  LocalActions beside({dir.path(), "/proc"}, nullptr);
  EXPECT_TRUE(beside.signal(own_process(), 0));
}

TEST(LocalActions, ASimulatedProcessGetsNoneThoughARealOneHasItsPid) {
  const TempDir dir;
  LocalActions actions({dir.path(), "/proc"}, nullptr);
  Target target = own_process();
  fs::create_directories(dir / std::to_string(target.pid.value));
  EXPECT_EQ(actions.signal(target, 0).error().code, ErrorCode::invalid_argument);
  fs::remove(dir / std::to_string(target.pid.value));
  target.stand_in = true;
  const auto ended = actions.signal(target, 0);
  ASSERT_FALSE(ended) << "it was simulated when it was looked up, and has ended since";
  EXPECT_EQ(ended.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(ended.error().message, ::testing::HasSubstr("is simulated"));
}

TEST(LocalActions, BesideASimulatedFleetWhatWasNotLookedUpGetsNone) {
  const TempDir dir;
  Target target = own_process();
  target.start_ticks.reset();
  LocalActions beside({dir.path(), "/proc"}, nullptr);
  EXPECT_EQ(beside.signal(target, 0).error().code, ErrorCode::unavailable);
  LocalActions here({"/proc"}, nullptr);
  EXPECT_TRUE(here.signal(target, 0)) << "without one there are only real processes";
}

}  // namespace
}  // namespace gpuwarden::view
