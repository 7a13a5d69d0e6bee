// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/memory_manager.hpp"

#include <cstring>

#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

MemoryConfig small_pool() {
  MemoryConfig config;
  config.max_pool_size = 64_MiB;
  config.enable_cleanup = false;
  return config;
}

class Memory : public ::testing::Test {
 protected:
  MemoryManager& make(MemoryConfig config) {
    // A small device: ThreadSanitizer leaves little address space.
    return manager_.emplace(std::move(config), MemoryPlace{.device = {}, .cuda_library = {}, .host_capacity = 1_GiB},
                            system_clock());
  }
  memory::DeviceAddress take(Bytes size) {
    const auto address = manager_->allocate(size);
    EXPECT_THAT(address, IsOk());
    return address.value_or(memory::DeviceAddress{});
  }
  std::optional<MemoryManager> manager_;
};

TEST_F(Memory, OfTheCpuCanBeWrittenTo) {
  make(small_pool());
  EXPECT_FALSE(manager_->status().open) << "nothing is taken before it is asked for";
  const auto address = take(3_MiB);
  std::memset(reinterpret_cast<void*>(address.value), 7, (3_MiB).value);
  const MemoryStatus status = manager_->status();
  EXPECT_EQ(status.backing, "host");
  EXPECT_EQ(status.live, 3_MiB);
  EXPECT_EQ(status.limit, 64_MiB);
  EXPECT_THAT(manager_->deallocate(address), IsOk());
  EXPECT_THAT(manager_->deallocate(address), FailsWith(ErrorCode::invalid_argument, HasSubstr("")));
  EXPECT_THAT(manager_->allocate(Bytes{}), FailsWith(ErrorCode::invalid_argument, HasSubstr("")));
  EXPECT_EQ(to_json(manager_->status())["live_bytes"], 0);
}

TEST_F(Memory, EachStrategyIsThePoolsOfThatName) {
  for (const memory::Strategy& pooled : memory::strategies()) {
    EXPECT_TRUE(allocation_strategy_from(pooled.name)) << pooled.name << " cannot be chosen";
  }
  for (const auto strategy :
       {AllocationStrategy::greedy, AllocationStrategy::balanced, AllocationStrategy::consolidated,
        AllocationStrategy::fragmentation_aware, AllocationStrategy::steady}) {
    EXPECT_NE(memory::find_strategy(to_string(strategy)), nullptr);
    auto config = small_pool();
    config.allocation_strategy = strategy;
    make(config);
    take(1_MiB);
    EXPECT_EQ(manager_->status().strategy, strategy);
  }
}

TEST_F(Memory, WithoutAPoolNothingLiesIdle) {
  auto config = small_pool();
  config.enable_pooling = false;
  make(config);
  const auto address = take(8_MiB);
  EXPECT_EQ(manager_->status().reserved, 8_MiB);
  EXPECT_THAT(manager_->deallocate(address), IsOk());
  EXPECT_EQ(manager_->status().reserved, Bytes{});
  EXPECT_THAT(manager_->deallocate(address), FailsWith(ErrorCode::invalid_argument, HasSubstr("given back")));
  EXPECT_THAT(manager_->allocate(65_MiB), FailsWith(ErrorCode::unsatisfied, HasSubstr("limit of 64 MiB")));
  config.enable_pooling = true;
  make(config);
  EXPECT_THAT(manager_->deallocate(take(8_MiB)), IsOk());
  EXPECT_GE(manager_->status().reserved, 8_MiB) << "a pool keeps it";
}

TEST_F(Memory, MoreThanTheCacheRatioGoesBackToTheDevice) {
  auto config = small_pool();
  config.max_memory_cache_ratio = 0.25;  // of 64 MiB
  make(config);
  const auto first = take(30_MiB);
  const auto second = take(30_MiB);
  EXPECT_THAT(manager_->deallocate(first), IsOk());
  EXPECT_THAT(manager_->deallocate(second), IsOk());
  EXPECT_LE(manager_->status().idle(), 16_MiB);
  config.max_memory_cache_ratio = 1;
  make(config);
  EXPECT_THAT(manager_->deallocate(take(60_MiB)), IsOk());
  EXPECT_GE(manager_->status().idle(), 60_MiB);
  EXPECT_GE(manager_->trim().value(), 60_MiB);
}

TEST_F(Memory, TheFractionIsOfTheDevicesTotal) {
  auto config = small_pool();
  config.memory_fraction = 0.5;
  config.max_pool_size.reset();
  MemoryPlace place;
  place.device = {GpuIndex{0}, Uuid("GPU-a"), "a GPU", CudaOrdinal{0}};
  place.host_capacity = 128_MiB;
  manager_.emplace(config, place, system_clock());
  const auto address = take(60_MiB);
  EXPECT_EQ(manager_->status().limit, 64_MiB);
  EXPECT_THAT(manager_->status().fallback, HasSubstr("no CUDA driver"));
  EXPECT_THAT(manager_->allocate(60_MiB), FailsWith(ErrorCode::unsatisfied, HasSubstr("")));
  EXPECT_THAT(manager_->set_memory_fraction(0.1), FailsWith(ErrorCode::unsatisfied, HasSubstr("")));
  EXPECT_THAT(manager_->set_memory_fraction(1), IsOk());
  EXPECT_THAT(manager_->allocate(60_MiB), IsOk());
  EXPECT_THAT(manager_->set_memory_fraction(1.2), FailsWith(ErrorCode::invalid_argument, HasSubstr("memory_fraction")));
  EXPECT_THAT(manager_->deallocate(address), IsOk());
}

TEST_F(Memory, WhenItIsOutWhatIsRegisteredIsLetGoOf) {
  make(small_pool());
  const auto cached = take(40_MiB);
  bool held = true;
  manager_->releases().add({"cache", ReleaseKind::cache,
                            [&]() -> std::optional<Bytes> { return held ? 40_MiB : Bytes{}; },
                            [&]() -> Result<Bytes> {
                              GPUWARDEN_CHECK(manager_->deallocate(cached));
                              held = false;
                              return 40_MiB;
                            }});
  EXPECT_THAT(manager_->allocate(50_MiB), IsOk());
  EXPECT_FALSE(held);
  EXPECT_EQ(manager_->status().out_of_memory, 1U);
  EXPECT_EQ(manager_->status().recovered, 1U);
  auto strict = small_pool();
  strict.enable_oom_recovery = false;
  make(strict);
  take(40_MiB);
  bool asked = false;
  manager_->releases().add({"cache", ReleaseKind::cache, {}, [&]() -> Result<Bytes> {
                              asked = true;
                              return Bytes{};
                            }});
  EXPECT_THAT(manager_->allocate(50_MiB), FailsWith(ErrorCode::unsatisfied, HasSubstr("")));
  EXPECT_FALSE(asked);
}

TEST_F(Memory, WhatLiesOnAnotherGpuIsKept) {
  MemoryManager& memory = manager_.emplace(
      small_pool(),
      MemoryPlace{.device = {GpuIndex{1}, Uuid("GPU-b"), "b", {}}, .cuda_library = {}, .host_capacity = {}},
      system_clock());
  std::vector<std::string> asked;
  for (const std::uint32_t gpu : {0U, 1U}) {
    memory.releases().add({"model " + std::to_string(gpu),
                           ReleaseKind::model,
                           {},
                           [&asked, gpu]() -> Result<Bytes> {
                             asked.push_back("model " + std::to_string(gpu));
                             return Bytes{};
                           },
                           [gpu](const Device& device) { return device.gpu == GpuIndex{gpu}; }});
  }
  memory.releases().add({"garbage", ReleaseKind::cache, {}, [&]() -> Result<Bytes> {
                           asked.emplace_back("garbage");
                           return Bytes{};
                         }});
  memory.emergency_release();
  EXPECT_THAT(asked, ::testing::ElementsAre("garbage", "model 1"));
  asked.clear();
  memory.releases().release();
  EXPECT_THAT(asked, ::testing::ElementsAre("garbage", "model 0", "model 1"));
}

TEST_F(Memory, MayEndWhileItIsLetGoOf) {
  const auto book = std::make_shared<ReleaseBook>();
  make(small_pool()).share_releases(book);
  take(1_MiB);
  // Is asked for its size before the pool is trimmed.
  book->add({"ends it", ReleaseKind::model,
             [this]() -> std::optional<Bytes> {
               manager_.reset();
               return Bytes{};
             },
             []() -> Result<Bytes> { return Bytes{}; }});
  const auto report = book->release();
  EXPECT_FALSE(manager_);
  EXPECT_EQ(report.freed, Bytes{});
  EXPECT_TRUE(book->names() == std::vector<std::string>{"ends it"});
}

TEST_F(Memory, DefragmentationMergesAndGivesBack) {
  make(small_pool());
  std::vector<memory::DeviceAddress> all;
  for (int i = 0; i < 16; ++i) all.push_back(take(3_MiB));
  for (std::size_t i = 0; i < all.size(); i += 2) EXPECT_THAT(manager_->deallocate(all[i]), IsOk());
  const auto done = manager_->defragment();
  ASSERT_THAT(done, IsOk());
  EXPECT_GT(done->returned, Bytes{});
  EXPECT_LT(done->idle_after, done->idle_before);
  EXPECT_EQ(done->idle_before - done->idle_after, done->returned);
  const auto report = manager_->emergency_release();
  EXPECT_TRUE(report.enough);
}

TEST_F(Memory, IdleMemoryGoesBackInTheBackground) {
  auto config = small_pool();
  config.enable_cleanup = true;
  config.cleanup_interval = 20ms;
  make(config);
  EXPECT_THAT(manager_->deallocate(take(32_MiB)), IsOk());
  EXPECT_TRUE(eventually(kSoon, [&] { return manager_->status().reserved < 32_MiB; }));
}

TEST_F(Memory, ABadConfigurationIsSaidWhenMemoryIsAskedFor) {
  auto config = small_pool();
  config.memory_fraction = 3;
  make(config);
  EXPECT_THAT(manager_->allocate(1_MiB), FailsWith(ErrorCode::invalid_argument, HasSubstr("memory_fraction")));
}

}  // namespace
}  // namespace gpuwarden::manager
