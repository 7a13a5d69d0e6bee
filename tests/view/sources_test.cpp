// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/sources.hpp"

#include <unistd.h>

#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/process.hpp"
#include "machine/simulated.hpp"
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

class ReadNode : public testing::Machines {};

TEST_F(ReadNode, HasWhatIsOutOfUseAsItsHealth) {
  machine::Options all = options();
  all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
  const auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, all);
  ASSERT_TRUE(machine) << machine.error().message;
  const Uuid gpu = machine->read().gpus.at(2).gpu.uuid;
  ASSERT_TRUE(machine->disablings().disable({gpu}, "fan is loud", "ann", system_clock()));
  const cluster::Node node = read_node(*machine);
  ASSERT_NE(node.reading, nullptr);
  EXPECT_EQ(node.reading->snapshot.gpus.size(), 8U);
  ASSERT_EQ(node.health.size(), 1U);
  EXPECT_EQ(node.health[0].uuid, gpu);
  EXPECT_EQ(node.health[0].state, facts::HealthState::disabled);
  EXPECT_FALSE(node.health_problem.has_value());
  for (const auto& entry : fs::recursive_directory_iterator(dir_ / "state")) {
    if (entry.is_regular_file()) testing::put(entry.path(), "{ no JSON");
  }
  EXPECT_TRUE(read_node(*machine).health_problem.has_value()) << "what nobody can read is not taken for none";
}

}  // namespace
}  // namespace gpuwarden::view
