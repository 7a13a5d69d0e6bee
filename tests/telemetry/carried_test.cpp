// SPDX-License-Identifier: Apache-2.0
#include "telemetry/carried.hpp"

#include "support/fleet_builder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace gpuwarden::testing;

TEST(CarriedTest, TheTopologyGoesWithEverySnapshot) {
  Carried carried;
  facts::Snapshot first = fleet(2);
  first.links = {{GpuIndex{0}, GpuIndex{1}, facts::LinkLevel::node, 0, {}, {}, {}, {}}};
  first.nics.resize(1);
  EXPECT_FALSE(carried.has_links());
  carried.join_links(first);
  EXPECT_TRUE(carried.has_links());
  facts::Snapshot next = fleet(2);
  carried.join_links(next);
  EXPECT_EQ(next.links, first.links);
  EXPECT_EQ(next.nics.size(), 1U);
}

TEST(CarriedTest, UnlistedProcessesAreAddedWhileTheyRun) {
  const TempDir proc;
  put(proc / "101/status", "");
  put(proc / "103/status", "");
  facts::Snapshot first = fleet(2);
  for (const int pid : {101, 102, 103}) {
    facts::GpuProcess process;
    process.pid = Pid{pid};
    process.listed = pid == 103;
    first.gpus[0].processes->push_back(process);
  }
  Carried carried;
  carried.keep_holders(first);
  facts::Snapshot next = fleet(2);
  carried.add_holders(next, proc.path());
  ASSERT_EQ(next.gpus[0].processes->size(), 1U) << "102 has ended, 103 is the driver's to list";
  EXPECT_EQ(next.gpus[0].processes->at(0).pid, Pid{101});
  EXPECT_TRUE(next.gpus[1].processes->empty());
  carried.add_holders(next, proc.path());
  EXPECT_EQ(next.gpus[0].processes->size(), 1U) << "nobody is there twice";
}

}  // namespace
}  // namespace gpuwarden::telemetry
