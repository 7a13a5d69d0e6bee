// SPDX-License-Identifier: Apache-2.0
// One battery for the pool and for everything that can be put around it; then what each of them adds.
#include "gpuwarden/memory/resource.hpp"

#include <sstream>

#include "gpuwarden/memory/logging.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "gpuwarden/memory/statistics.hpp"
#include "gpuwarden/memory/tracking.hpp"
#include "memory/model_upstream.hpp"
#include "memory/resource_battery.hpp"
#include "memory/two_streams.hpp"
#include "support/fake_clock.hpp"

namespace gpuwarden::memory {
namespace {

/// A pool on a device of 256 MiB, and what stands around it.
struct Base {
  ModelUpstream upstream{256_MiB};
  std::unique_ptr<Pool> pool = Pool::create(upstream, {}).value();
};
struct Plain : Base {
  Pool& resource = *pool;
};
struct Counted : Base {
  StatisticsResource<Pool> resource{*pool};
};
struct Tracked : Base {
  TrackingResource<Pool> resource{*pool, 4};
};
struct Logged : Base {
  std::ostringstream out;
  gpuwarden::testing::FakeClock clock;
  LoggingResource<Pool> resource{*pool, out, clock};
};
struct AllOfThem : Logged {
  TrackingResource<LoggingResource<Pool>> tracked{Logged::resource};
  StatisticsResource<TrackingResource<LoggingResource<Pool>>> resource{tracked};
};

template <class T>
class EveryResource : public ::testing::Test {
 protected:
  T all_;
};
using Resources = ::testing::Types<Plain, Counted, Tracked, Logged, AllOfThem>;
TYPED_TEST_SUITE(EveryResource, Resources);

TYPED_TEST(EveryResource, GivesOutAndTakesBack) {
  auto& resource = this->all_.resource;
  static_assert(DeviceResource<std::remove_reference_t<decltype(resource)>>);
  expect_it_gives_out_and_takes_back(resource, kStream);
  EXPECT_EQ(this->all_.pool->status().frees, 2U);
  EXPECT_EQ(this->all_.pool->status().live, 0_B);
}

TYPED_TEST(EveryResource, PassesRefusalsOnAndStaysUsable) {
  auto& resource = this->all_.resource;
  expect_it_passes_refusals_on(resource, kStream, {.fits = 200_MiB, .too_much = 300_MiB});
  EXPECT_TRUE(this->all_.pool->check());
}

TYPED_TEST(EveryResource, MayBeUsedFromSeveralThreads) {
  auto& resource = this->all_.resource;
  expect_it_serves_threads(resource, {StreamId{0}, StreamId{1}, StreamId{2}});
  EXPECT_EQ(this->all_.pool->status().live, 0_B);
  EXPECT_TRUE(this->all_.pool->check());
}

TEST(StatisticsResource, TellsWhatAScopeTookAndLeft) {
  Base base;
  StatisticsResource counted(*base.pool);
  const auto before = counted.allocate(5_MiB, kStream).value();
  ScopeReport outer;
  ScopeReport inner;
  {
    const MemoryScope scope(counted, "step", outer);
    const auto temporary = counted.allocate(10_MiB, kStream).value();
    {
      const MemoryScope nested(counted, "backward", inner);
      ASSERT_TRUE(counted.deallocate(temporary, 10_MiB, kStream));
      ASSERT_TRUE(counted.allocate(3_MiB, kStream));
    }
  }
  EXPECT_EQ(outer.name, "step");
  EXPECT_EQ(outer.left, static_cast<std::int64_t>((3_MiB).value));
  EXPECT_EQ(outer.peak, 10_MiB);
  EXPECT_EQ(outer.allocations, 2U);
  EXPECT_EQ(inner.left, -static_cast<std::int64_t>((7_MiB).value));
  EXPECT_EQ(inner.peak, 0_B);
  ASSERT_TRUE(counted.deallocate(before, 5_MiB, kStream));
  EXPECT_FALSE(counted.allocate(1_GiB, kStream));
  const auto all = counted.statistics();
  EXPECT_EQ(all.live, 3_MiB);
  EXPECT_EQ(all.peak, 15_MiB);
  EXPECT_EQ(all.total, 18_MiB);
  EXPECT_EQ(all.live_blocks, 1U);
  EXPECT_EQ(all.peak_blocks, 2U);
  EXPECT_EQ(all.failures, 1U);
}

TEST(TrackingResource, NamesWhatIsLiveWithItsCallStack) {
  Base base;
  TrackingResource tracked(*base.pool, 8);
  const auto address = tracked.allocate(4_KiB, kStream).value();
  const auto live = tracked.live();
  ASSERT_EQ(live.size(), 1U);
  EXPECT_EQ(live[0].address, address);
  EXPECT_EQ(live[0].size, 4_KiB);
  EXPECT_EQ(live[0].stream, kStream);
  EXPECT_FALSE(live[0].stack.empty());
  EXPECT_EQ(describe(live[0].stack).size(), live[0].stack.size());
  ASSERT_TRUE(tracked.deallocate(address, 4_KiB, kStream));
  EXPECT_THAT(tracked.live(), ::testing::IsEmpty());
}

TEST(LoggingResource, WritesARowForWhatSucceeds) {
  Logged logged;
  const auto first = logged.resource.allocate(1000_B, kStream).value();
  logged.clock.advance(std::chrono::microseconds(7));
  EXPECT_FALSE(logged.resource.allocate(1_GiB, kStream));
  const auto second = logged.resource.allocate(2_MiB, StreamId{5}).value();
  ASSERT_TRUE(logged.resource.deallocate(first, 1000_B, kStream));
  ASSERT_TRUE(logged.resource.deallocate(second, 2_MiB, StreamId{5}));
  EXPECT_EQ(logged.out.str(),
            "op,id,size,stream,time_us,phase\n"
            "a,1,1000,1,0,rec\n"
            "a,2,2097152,5,7,rec\n"
            "f,1,1000,1,7,rec\n"
            "f,2,2097152,5,7,rec\n");
}

}  // namespace
}  // namespace gpuwarden::memory
