// SPDX-License-Identifier: Apache-2.0
#include "launch/emergency.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include "launch/process.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::HasSubstr;
using testing::put;
using testing::TempDir;

constexpr const char* kNearlyOut = "MemTotal: 1000000 kB\nMemFree: 10 kB\nMemAvailable: 20000 kB\nSwapFree: 0 kB\n";

TEST(Emergency, MemoryThatIsLeftIsWhatIsAvailableAndFreeSwap) {
  const auto room = machine_room(kNearlyOut);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->left, Bytes(20000 * 1024));
  EXPECT_TRUE(is_nearly_out(*room));
  EXPECT_FALSE(is_nearly_out(*machine_room("MemTotal: 1000000 kB\nMemAvailable: 20000 kB\nSwapFree: 900000 kB\n")));
  EXPECT_FALSE(machine_room("MemTotal: 5 kB\n").has_value()) << "not known is not nothing";
}

TEST(Emergency, TheNearestLimitOfAControlGroupCountsWithoutThePageCache) {
  const TempDir dir;
  put(dir / "memory.max", "max\n");
  put(dir / "a/memory.max", "1073741824\n");
  put(dir / "a/memory.current", "1063741824\n");
  put(dir / "a/memory.stat", "anon 5\nfile 800000000\nshmem 100000000\n");
  put(dir / "a/b/memory.max", "max\n");
  const auto room = group_room("0::/a/b\n", dir.path());
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->left, Bytes(1073741824ULL - (1063741824ULL - 700000000ULL)));
  EXPECT_FALSE(is_nearly_out(*room));
  put(dir / "a/memory.stat", "file 0\nshmem 0\n");
  EXPECT_TRUE(is_nearly_out(*group_room("0::/a/b\n", dir.path())));
  EXPECT_FALSE(group_room("0::/elsewhere\n", dir.path()).has_value());
}

TEST(Emergency, VersionOneHasItsOwnFilesAndAGreatNumberForNoLimit) {
  const TempDir dir;
  put(dir / "memory/x/memory.limit_in_bytes", "100000000\n");
  put(dir / "memory/x/memory.usage_in_bytes", "99000000\n");
  put(dir / "memory/x/memory.stat", "total_cache 0\ntotal_shmem 0\n");
  EXPECT_TRUE(is_nearly_out(*group_room("4:memory:/x\n3:cpu:/\n", dir.path())));
  put(dir / "memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(group_room("4:memory:/x\n", dir.path()).has_value());
}

TEST(Processes, AreCountedOnceThoughARankIsBelowAnother) {
  const std::multimap<pid_t, pid_t> children{{1, 10}, {10, 20}, {10, 21}, {20, 30}, {2, 99}};
  EXPECT_THAT(with_descendants({10, 20}, children), ::testing::UnorderedElementsAre(10, 20, 21, 30));
  EXPECT_THAT(with_descendants({7}, children), ::testing::ElementsAre(7));
}

class EmergencyLook : public ::testing::Test {
 protected:
  EmergencyLook() {
    put(dir_ / "meminfo", kNearlyOut);
    put(dir_ / "self/cgroup", "0::/\n");
  }
  void holds(const char* kilobytes) {
    put(dir_ / std::to_string(::getpid()) / "status", std::string("RssAnon: ") + kilobytes + " kB\n");
  }
  TempDir dir_;
  EmergencyWatch watch_{"", {dir_.path(), dir_ / "groups"}};
  std::vector<Pid> self_{Pid{::getpid()}};
};

TEST_F(EmergencyLook, WhatIsSeenTwiceEndsTheJobThatHoldsTheMemory) {
  holds("600000");
  EXPECT_EQ(watch_.look(self_), "");
  EXPECT_THAT(watch_.look(self_), HasSubstr("the memory of this machine is nearly used up"));
  put(dir_ / "meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
  EXPECT_EQ(watch_.look(self_), "");
}

TEST_F(EmergencyLook, OthersMemoryIsNotThisJobs) {
  holds("1000");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(watch_.look(self_), "");
}

TEST_F(EmergencyLook, WhatCannotBeReadIsNoEmergency) {
  std::filesystem::remove(dir_ / "meminfo");
  holds("900000");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(watch_.look(self_), "");
}

}  // namespace
}  // namespace gpuwarden::launch
