// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/past_load.hpp"

#include <gtest/gtest.h>

#include "support/fleet_builder.hpp"

namespace gpuwarden::machine {
namespace {

/// Two idle GPUs whose last sample period was full of work.
facts::Snapshot just_used() {
  facts::Snapshot snapshot = testing::fleet(2);
  for (auto& record : snapshot.gpus) {
    record.processes.emplace();
    record.sample.utilization_gpu = Percent(90);
  }
  return snapshot;
}

std::optional<Percent> load_after(const facts::Snapshot& snapshot,
                                  const std::optional<std::vector<Uuid>>& devices = {}) {
  return without_past_load(snapshot, devices).gpus[0].sample.utilization_gpu;
}

TEST(PastLoad, IsThatOfGpusWithoutProcessesAndMemory) {
  facts::Snapshot snapshot = just_used();
  EXPECT_EQ(load_after(snapshot), Percent(0));
  snapshot.gpus[0].sample.memory_used = snapshot.gpus[0].sample.memory_total;
  EXPECT_EQ(load_after(snapshot), Percent(90)) << "somebody holds its memory";
  snapshot = just_used();
  snapshot.gpus[0].processes->emplace_back().compute = true;
  EXPECT_EQ(load_after(snapshot), Percent(90)) << "a process is there";
  snapshot.gpus[0].processes.reset();
  EXPECT_EQ(load_after(snapshot), Percent(90)) << "nobody was read";
  snapshot = just_used();
  snapshot.gpus[0].processes_unreadable = true;
  EXPECT_EQ(load_after(snapshot), Percent(90)) << "who is there cannot be read";
}

TEST(PastLoad, IsLeftOutOnTheNamedDevicesAlone) {
  const facts::Snapshot snapshot = just_used();
  EXPECT_EQ(load_after(snapshot, std::vector{snapshot.gpus[0].gpu.uuid}), Percent(0));
  EXPECT_EQ(load_after(snapshot, std::vector{snapshot.gpus[1].gpu.uuid}), Percent(90));
}

TEST(PastLoad, CountsWhereMoreDevicesCouldBeHadWithoutIt) {
  facts::Snapshot snapshot = just_used();
  placement::Request request{.all = true};
  const std::vector<facts::Lease> leases;
  const std::vector<Uuid> nobody;
  const auto counts = [&] {
    const auto select = [&](const placement::Inputs& inputs) { return placement::select(request, inputs); };
    const placement::Inputs inputs{snapshot, leases, nobody, {}};
    const auto decision = select(inputs);
    EXPECT_TRUE(decision.has_value());
    return past_load_counts(*decision, inputs, select);
  };
  EXPECT_TRUE(counts());
  snapshot.gpus[1].sample.utilization_gpu = Percent(0);
  EXPECT_TRUE(counts()) << "one of the two can be had";
  request = {.count = 1U};
  EXPECT_FALSE(counts()) << "one is all that is wanted";
  request.gpu_ids = {{"0"}};
  EXPECT_TRUE(counts());
  request.allow_busy = true;
  EXPECT_FALSE(counts());
}

}  // namespace
}  // namespace gpuwarden::machine
