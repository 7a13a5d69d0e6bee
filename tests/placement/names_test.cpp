// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/names.hpp"

#include "gpuwarden/placement/select.hpp"
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
  EXPECT_EQ(expand_ranges({"1-4096"}).size(), std::size_t{kMostInRange});
  EXPECT_EQ(expand_ranges({"0-4096"}).size(), 1U);
}

TEST(KeepNamed, ByIndexUuidAndBusIdInTheSnapshotsOrder) {
  const facts::Snapshot all = testing::fleet(4);
  EXPECT_THAT(kept({}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept({"2-3", "0"}), ElementsAre(0, 2, 3));
  EXPECT_THAT(kept({all.gpus[1].gpu.uuid.value}), ElementsAre(1));
  EXPECT_THAT(kept({all.gpus[3].gpu.pci_bus_id}), ElementsAre(3));
}

TEST(KeepNamed, ByTheBeginningOfAUuidAndABusIdWithoutItsDomain) {
  EXPECT_THAT(kept({"gpu-2"}), ElementsAre(2));
  EXPECT_THAT(kept({"13:00.0"}), ElementsAre(3));
  EXPECT_THAT(kept({"0000:11:00.0"}), ElementsAre(1));
}

TEST(KeepNamed, AnInstanceKeepsItsGpu) {
  facts::Snapshot snapshot = testing::mig_fleet();
  EXPECT_THAT(keep_named({{"MIG-1"}}, snapshot), IsOk());
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.index.value, 0U);
}

/// What `list --gpu` and `select --gpu-ids` say of one name.
void expect_refused_by_both(const std::string& name, const facts::Snapshot& all, const std::string& message) {
  facts::Snapshot snapshot = all;
  EXPECT_THAT(keep_named({{name}}, snapshot), FailsWith(ErrorCode::invalid_argument, HasSubstr(message)));
  EXPECT_EQ(snapshot.gpus.size(), all.gpus.size()) << name;
  Request request;
  request.gpu_ids = {{name}};
  EXPECT_THAT(select(request, {all, {}, {}, {}}), FailsWith(ErrorCode::invalid_argument, HasSubstr(message)));
}

TEST(Names, AreRefusedByListAndSelectAlike) {
  facts::Snapshot all = testing::fleet(4);
  for (const char* name : {"", "GPU-", "test", "gpu-9", "3:00.0", "13:00", ":00.0"})
    expect_refused_by_both(name, all, "there is no GPU");
  all.gpus[1].gpu.uuid = Uuid("GPU-0111-test");
  all.gpus[2].gpu.pci_bus_id = "00000001:13:00.0";
  expect_refused_by_both("GPU-0", all, "'GPU-0' is not unique: it fits 2 GPUs");
  expect_refused_by_both("13:00.0", all, "'13:00.0' is not unique: it fits 2 GPUs");
}

TEST(KeepNamed, AnUnknownNameKeepsEveryGpuAndSaysWhichThereAre) {
  facts::Snapshot snapshot = testing::fleet(2);
  const auto refused = keep_named({{"0"}, {"9"}}, snapshot);
  EXPECT_THAT(refused, FailsWith(ErrorCode::invalid_argument, "there is no GPU '9'"));
  EXPECT_THAT(refused.error().hint, HasSubstr("there are: 0-1 ("));
  EXPECT_EQ(snapshot.gpus.size(), 2U);
  facts::Snapshot none;
  EXPECT_EQ(keep_named({{"0"}}, none).error().hint, "this machine has no GPU");
}

}  // namespace
}  // namespace gpuwarden::placement
