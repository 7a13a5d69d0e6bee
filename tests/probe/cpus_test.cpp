// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/cpus.hpp"

#include <fmt/format.h>

#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;

TEST(Cpus, AreReadWithWhatTheyShare) {
  const TempDir dir;
  put(dir / "sys/devices/system/cpu/online", "0-2,5\n");
  const auto cpu = [&](unsigned number, const std::string& file, const std::string& list) {
    put(dir / fmt::format("sys/devices/system/cpu/cpu{}/{}", number, file), list + "\n");
  };
  cpu(0, "topology/thread_siblings_list", "0,2");
  cpu(1, "topology/thread_siblings_list", "1");
  cpu(0, "topology/core_siblings_list", "0-2");
  cpu(5, "topology/core_siblings_list", "5");
  cpu(1, "cache/index3/shared_cpu_list", "1-2,5");
  put(dir / "sys/devices/system/node/node1/cpulist", "5,7\n");
  put(dir / "sys/devices/system/node/node0/cpulist", "0-2\n");
  put(dir / "sys/devices/system/node/possible", "0-1\n");
  const auto cpus = read_cpus(dir / "sys");
  ASSERT_EQ(cpus.size(), 4U);
  EXPECT_EQ(cpus[0], (facts::Cpu{.number = 0, .core = 0, .package = 0, .numa_node = 0, .cache = {}}));
  EXPECT_EQ(cpus[1], (facts::Cpu{.number = 1, .core = 1, .package = 0, .numa_node = 0, .cache = 1}));
  EXPECT_EQ(cpus[2], (facts::Cpu{.number = 2, .core = 0, .package = 0, .numa_node = 0, .cache = 1}));
  EXPECT_EQ(cpus[3], (facts::Cpu{.number = 5, .core = {}, .package = 5, .numa_node = 1, .cache = 1}));
}

TEST(Cpus, WhatCannotBeReadIsUnknown) {
  const TempDir dir;
  EXPECT_TRUE(read_cpus(dir / "sys").empty());
  put(dir / "sys/devices/system/cpu/online", "0-999999999999\n");
  EXPECT_TRUE(read_cpus(dir / "sys").empty());
  put(dir / "sys/devices/system/cpu/online", "0\n");
  put(dir / "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "nonsense\n");
  const auto cpus = read_cpus(dir / "sys");
  ASSERT_EQ(cpus.size(), 1U);
  EXPECT_EQ(cpus[0], facts::Cpu{});
}

}  // namespace
}  // namespace gpuwarden::probe
