// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/memory_status.hpp"

#include <nlohmann/json.hpp>

#include "support/fleet_builder.hpp"

namespace gpuwarden::pools {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

PublishedPool pool_on(std::string gpu) {
  PublishedPool pool;
  pool.process.pid = Pid{42};
  pool.gpu = Uuid(std::move(gpu));
  pool.strategy = "balanced";
  pool.live = 3_GiB;
  pool.free = 1_GiB;
  pool.largest_free = 512_MiB;
  pool.reserved = 4_GiB;
  return pool;
}

TEST(MemoryStatus, APoolBelongsToTheGpuWhoseUuidItHasOrToOneOfItsMigInstances) {
  facts::GpuRecord record = testing::gpu(1);
  facts::MigDevice part;
  part.uuid = Uuid("MIG-beef");
  record.mig_devices.push_back(part);
  const Pools pools{pool_on("GPU-1000-test"), pool_on("GPU-beef"), pool_on("GPU-2000-test")};
  const Pools found = pools_on(record, pools);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[1].gpu, Uuid("GPU-beef")) << "CUDA has the same prefix for all";
}

TEST(MemoryStatus, WhatNobodyHoldsIsKnownOnlyWhereAllFiguresAre) {
  facts::GpuRecord record = testing::gpu(0);
  record.sample.memory_used = 10_GiB;
  facts::GpuProcess process;
  process.pid = Pid{7};
  process.listed = true;
  process.memory = 4_GiB;
  record.processes = {process};
  EXPECT_EQ(unaccounted_memory(record), 6_GiB);
  record.processes->front().memory.reset();
  EXPECT_EQ(unaccounted_memory(record), std::nullopt);
  record.processes.reset();
  EXPECT_EQ(unaccounted_memory(record), std::nullopt);
}

TEST(MemoryStatus, TheJsonHasEveryFigureOfEveryPool) {
  MemoryStatus status{testing::fleet(2), {pool_on("GPU-1000-test")}};
  status.snapshot.simulated = true;
  const Json json = Json::parse(to_json(status).dump());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["simulated"], true);
  ASSERT_THAT(json["gpus"], SizeIs(2));
  EXPECT_THAT(json["gpus"][0]["pools"], IsEmpty());
  ASSERT_THAT(json["gpus"][1]["pools"], SizeIs(1));
  const Json& pool = json["gpus"][1]["pools"][0];
  EXPECT_EQ(pool["pid"], 42);
  EXPECT_EQ(pool["strategy"], "balanced");
  EXPECT_DOUBLE_EQ(pool["external_fragmentation"], 0.5);
  for (const PoolFigure& figure : pool_figures()) {
    const auto value = figure.get(status.pools[0]);
    EXPECT_EQ(pool[std::string(figure.key)], value ? Json(*value) : Json()) << figure.key;
  }
  EXPECT_EQ(json["gpus"][0]["unaccounted_bytes"], 0);
  EXPECT_EQ(json["gpus"][0]["processes"], Json::array());
}

TEST(MemoryStatus, WhatAnAllocatorDoesNotTellIsNull) {
  PublishedPool torch = pool_on("GPU-1000-test");
  torch.strategy = "pytorch";
  torch.largest_free.reset();
  const Json json = to_json(torch);
  for (const char* key : {"largest_free_bytes", "limit_bytes", "requested_bytes", "external_fragmentation"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_EQ(json["live_bytes"], (3_GiB).value);
}

TEST(MemoryStatus, WhoHoldsMostStandsFirstAndWhoIsNotListedLast) {
  facts::GpuRecord record = testing::gpu(1);
  record.processes = std::vector<facts::GpuProcess>{
      {.pid = Pid{42}, .memory = 1_GiB}, {.pid = Pid{43}, .memory = 2_GiB}, {.pid = Pid{44}, .listed = false}};
  PublishedPool hidden = pool_on("GPU-1000-test");
  hidden.process.pid = Pid{7};
  const auto holdings = holdings_on(record, {hidden, pool_on("GPU-1000-test"), hidden, pool_on("GPU-2000-test")});
  ASSERT_THAT(holdings, SizeIs(3)) << "44 has the device's file open and nothing more";
  EXPECT_EQ(holdings[0].process.pid, Pid{43});
  EXPECT_THAT(holdings[0].pools, IsEmpty());
  EXPECT_EQ(holdings[1].process.pid, Pid{42});
  EXPECT_THAT(holdings[1].pools, SizeIs(1));
  EXPECT_EQ(holdings[2].process.pid, Pid{7});
  EXPECT_FALSE(holdings[2].process.memory);
  EXPECT_THAT(holdings[2].pools, SizeIs(2));
}

}  // namespace
}  // namespace gpuwarden::pools
