// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::lease {
namespace {

TEST(LeaseJson, NamesHoldersAndWhoWaits) {
  Situation fleets;
  fleets.leases = {{Uuid("GPU-s"), false, {}}};
  fleets.waiting = {{.number = 1, .id = "z", .owner = {.pid = Pid{5}, .user = "ada"}, .wants = 3}};
  Situation situation;
  situation.leases = {{Uuid("GPU-a"), true, {{.pid = Pid{7}, .user = "ada", .run_id = "run-1", .command = "train"}}}};
  situation.waiting = {{.number = 1, .id = "x", .owner = {.pid = Pid{0}, .user = "bob"}, .wants = 2},
                       {.number = 2, .id = "y", .owner = {.pid = Pid{9}, .user = "eve", .command = "run"}, .wants = 1}};
  const auto json = to_json(LeaseList{situation, fleets, true});
  EXPECT_EQ(json["schema"], facts::kJsonSchema);
  EXPECT_EQ(json["simulated"], true);
  ASSERT_EQ(json["leases"].size(), 1U);
  const auto lease = facts::lease_from_json(json["leases"][0]);
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(*lease, situation.leases[0]);
  EXPECT_EQ(json["simulated_leases"][0]["uuid"], "GPU-s");
  EXPECT_EQ(json["simulated_waiting"][0]["wants"], 3);
  EXPECT_TRUE(json["waiting"][0]["pid"].is_null()) << "not visible";
  EXPECT_EQ(json["waiting"][1],
            nlohmann::json({{"number", 2}, {"user", "eve"}, {"pid", 9}, {"wants", 1}, {"command", "run"}}));
}

TEST(LeaseJson, NothingIsEmptyListsAndNotNull) {
  const auto json = to_json(LeaseList{Situation{}, Situation{}});
  for (const char* key : {"leases", "simulated_leases", "waiting", "simulated_waiting"})
    EXPECT_EQ(json[key], nlohmann::json::array());
}

TEST(SnapshotJson, HasEachGpusLease) {
  facts::Snapshot snapshot = testing::fleet(2);
  const Uuid second = snapshot.gpus[1].gpu.uuid;
  const nlohmann::json json = to_json(snapshot, {{second, true, {{.pid = Pid{7}, .user = "ada"}}}});
  EXPECT_TRUE(json["gpus"][0]["lease"].is_null());
  EXPECT_EQ(json["gpus"][1]["lease"]["idle"], true);
  EXPECT_EQ(json["gpus"][1]["lease"]["holders"][0]["user"], "ada");
  const auto lease = facts::lease_from_json(json["gpus"][1]["lease"]);
  ASSERT_TRUE(lease.has_value());
  EXPECT_TRUE(lease->shared);
  const auto back = facts::snapshot_from_json(json);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(*back, snapshot);
}

}  // namespace
}  // namespace gpuwarden::lease
