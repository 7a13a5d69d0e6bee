// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/names.hpp"

#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;

/// The indices of the GPUs that are kept of four.
std::vector<std::uint32_t> kept(const std::vector<std::string>& names) {
  facts::Snapshot snapshot = testing::fleet(4);
  EXPECT_THAT(keep_named(expand_ranges(names), snapshot), IsOk());
  std::vector<std::uint32_t> indices;
  for (const auto& record : snapshot.gpus) indices.push_back(record.gpu.index.value);
  return indices;
}

TEST(ExpandRanges, GivesTheIndicesOfARangeAndLeavesAllElse) {
  std::vector<std::string> names;
  for (const GpuName& name : expand_ranges({"0-2", "7", "GPU-3f", "3-1", "0-99999"})) names.push_back(name.text);
  EXPECT_THAT(names, ElementsAre("0", "1", "2", "7", "GPU-3f", "3-1", "0-99999"));
}

TEST(KeepNamed, ByIndexUuidAndBusIdInTheSnapshotsOrder) {
  const facts::Snapshot all = testing::fleet(4);
  EXPECT_THAT(kept({}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept({"2-3", "0"}), ElementsAre(0, 2, 3));
  EXPECT_THAT(kept({all.gpus[1].gpu.uuid.value}), ElementsAre(1));
  EXPECT_THAT(kept({all.gpus[3].gpu.pci_bus_id}), ElementsAre(3));
}

TEST(KeepNamed, AnUnknownNameKeepsEveryGpuAndSaysWhichThereAre) {
  facts::Snapshot snapshot = testing::fleet(2);
  const auto refused = keep_named({{"0"}, {"9"}}, snapshot);
  EXPECT_THAT(refused, FailsWith(ErrorCode::invalid_argument, "there is no GPU '9'"));
  EXPECT_THAT(refused.error().hint, HasSubstr("there are: 0 ("));
  EXPECT_EQ(snapshot.gpus.size(), 2U);
  facts::Snapshot none;
  EXPECT_EQ(keep_named({{"0"}}, none).error().hint, "this machine has no GPU");
}

}  // namespace
}  // namespace gpuwarden::placement
