// SPDX-License-Identifier: Apache-2.0
// What logs and launchers put before lines is no matter in any format.
#include <algorithm>
#include "capture/reading.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;

std::string behind(std::string_view prefix, std::string_view text) {
  std::string result;
  for (const auto line : split(text, '\n')) result.append(prefix).append(line).append("\n");
  return result;
}

constexpr std::string_view kSmallTopology =
    "\tGPU0\tGPU1\tCPU Affinity\n"
    "GPU0\t X \tNV4\t0-15\n"
    "GPU1\tNV4\t X \t0-15\n";
constexpr std::string_view kPrefixedQuery =
    "==============NVSMI LOG==============\n"
    "Driver Version                            : 550.54.15\n"
    "Attached GPUs                             : 1\n"
    "GPU 00000000:17:00.0\n"
    "    Product Name                          : NVIDIA L4\n";

TEST(Prefixes, WhatLogsAndLaunchersPutBeforeLinesIsNoMatterInAnyFormat) {
  for (const std::string_view prefix :
       {"2024-05-01T12:00:00.123456789Z stdout F ", "2024-05-01 12:00:00,123 ", "[2024-05-01 12:00:00] ", "[0] ",
        "[rank3]: ", "[default0]:", "gpu-1  | ", "(worker pid=77, ip=10.0.0.1) ", "[pod/trainer-0/main] ",
        "0: ", "node17: ", "2024-05-01T12:00:00Z [1] "}) {
    SCOPED_TRACE(prefix);
    const auto query = snapshot_of(behind(prefix, kPrefixedQuery));
    EXPECT_EQ(query.driver_version, "550.54.15");
    ASSERT_EQ(query.gpus.size(), 1U);
    EXPECT_EQ(query.gpus[0].gpu.name, "NVIDIA L4");
    const auto topology = snapshot_of(behind(prefix, kSmallTopology));
    ASSERT_TRUE(topology.links);
    EXPECT_EQ(topology.links->at(0).nvlinks, 4);
    const auto list = snapshot_of(behind(prefix, "GPU 0: NVIDIA L4 (UUID: GPU-1)\nGPU 1: NVIDIA L4 (UUID: GPU-2)\n\n"));
    EXPECT_EQ(list.gpus.size(), 2U);
    const auto csv =
        snapshot_of(behind(prefix, "index, name, memory.used [MiB]\n0, NVIDIA L4, 5 MiB\n1, NVIDIA L4, 6 MiB\n"));
    EXPECT_EQ(csv.gpus.size(), 2U);
  }
}

TEST(Prefixes, RanksThatPrintAtOnceAreReadOneAfterTheOther) {
  std::string mixed;
  for (const auto line : split(kPrefixedQuery, '\n'))
    mixed.append("[0] ").append(line).append("\n[1] ").append(line).append("\n");
  const auto snapshot = snapshot_of(mixed);
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.pci_bus_id, "00000000:17:00.0");
}

}  // namespace
}  // namespace gpuwarden::capture
