// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/trouble.hpp"

#include "gpuwarden/facts/use.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::cluster {
namespace {

Node node_with(facts::Snapshot snapshot) {
  Node node;
  node.reading = std::make_shared<const telemetry::Reading>(telemetry::Reading{.snapshot = std::move(snapshot)});
  return node;
}

TEST(NodeTrouble, IsAnUnfitGpuOrOneThatCannotBeUsed) {
  EXPECT_FALSE(has_gpu_in_trouble(Node{})) << "nothing is known";
  facts::Snapshot snapshot = testing::fleet(2);
  Node node = node_with(snapshot);
  EXPECT_FALSE(has_gpu_in_trouble(node));
  node.health.resize(1);
  node.health[0].state = facts::HealthState::disabled;
  EXPECT_FALSE(has_gpu_in_trouble(node)) << "somebody wanted that";
  node.health[0].state = facts::HealthState::error;
  EXPECT_TRUE(has_gpu_in_trouble(node));
  snapshot.gpus[1].state = facts::GpuState::suspended;
  EXPECT_FALSE(has_gpu_in_trouble(node_with(snapshot))) << "it sleeps";
  snapshot.gpus[1].state = facts::GpuState::lost;
  EXPECT_TRUE(has_gpu_in_trouble(node_with(snapshot)));
}

TEST(NodeTrouble, IsWhatListCallsSo) {
  facts::Snapshot snapshot = testing::fleet(1);
  Node node = node_with(snapshot);
  node.health.resize(1);
  node.health[0].state = facts::HealthState::error;
  node.health[0].uuid = snapshot.gpus[0].gpu.uuid;
  EXPECT_TRUE(has_gpu_in_trouble(node));
  snapshot.gpus[0].gpu.vendor = "AMD";
  EXPECT_FALSE(facts::is_in_trouble(snapshot.gpus[0], true));
  Node other = node_with(snapshot);
  other.health = node.health;
  EXPECT_FALSE(has_gpu_in_trouble(other)) << "of another maker's GPU nothing is judged";
  other.health[0].uuid = Uuid("GPU-gone");
  EXPECT_TRUE(has_gpu_in_trouble(other)) << "one that is not there any more";
}

TEST(OutOfUseOnANode, IsWhatItsHealthSays) {
  Node node;
  const Uuid gpu("GPU-a");
  EXPECT_FALSE(out_of_use(node, gpu).has_value());
  facts::Health health;
  health.uuid = gpu;
  health.reason = "Xid 79";
  health.next_step = "reset it";
  node.health = {health};
  EXPECT_FALSE(out_of_use(node, gpu).has_value()) << "it is available";
  node.health[0].state = facts::HealthState::error;
  const auto unfit = out_of_use(node, gpu);
  ASSERT_TRUE(unfit.has_value());
  EXPECT_TRUE(unfit->judged);
  EXPECT_EQ(unfit->reason, "Xid 79");
  EXPECT_EQ(unfit->next_step, "reset it");
  node.health[0].state = facts::HealthState::disabled;
  EXPECT_FALSE(out_of_use(node, gpu)->judged);
  EXPECT_FALSE(out_of_use(node, Uuid("GPU-b")).has_value());
}

}  // namespace
}  // namespace gpuwarden::cluster
