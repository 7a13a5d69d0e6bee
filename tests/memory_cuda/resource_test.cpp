// SPDX-License-Identifier: Apache-2.0
// The battery of every resource on the CUDA driver: the pool, the driver's own pools and plain cuMemAlloc.
#include "memory/resource_battery.hpp"

#include "gpuwarden/memory/async_pool.hpp"
#include "gpuwarden/memory/statistics.hpp"
#include "gpuwarden/memory/tracking.hpp"
#include "memory_cuda/scene.hpp"

namespace gpuwarden::memory {
namespace {

struct OnThePool {
  std::unique_ptr<CudaUpstream> device = open_device();
  std::unique_ptr<Pool> pool = Pool::create(*device, {}).value();
  Pool& resource = *pool;
};
struct OnTheDriversPool {
  std::unique_ptr<AsyncPoolResource> pool = AsyncPoolResource::open({.cuda = cuda_options()}).value();
  AsyncPoolResource& resource = *pool;
};
struct OnPlainCalls {
  std::unique_ptr<DirectResource> direct = DirectResource::open(cuda_options()).value();
  DirectResource& resource = *direct;
};
struct DecoratedDriversPool : OnTheDriversPool {
  TrackingResource<AsyncPoolResource> tracked{*pool};
  StatisticsResource<TrackingResource<AsyncPoolResource>> resource{tracked};
};

template <class T>
class EveryCudaResource : public cuda::Programs {};
using Resources = ::testing::Types<OnThePool, OnTheDriversPool, OnPlainCalls, DecoratedDriversPool>;
TYPED_TEST_SUITE(EveryCudaResource, Resources);

TYPED_TEST(EveryCudaResource, GivesOutAndTakesBack) {
  this->run([](const Library& cuda) {
    const cuda::Context context = cuda.start();
    const std::uint64_t before = cuda.free_memory();
    {
      TypeParam all;
      expect_it_gives_out_and_takes_back(all.resource, {});
    }
    EXPECT_EQ(cuda.cuCtxSetCurrent(context), cuda::kSuccess);
    EXPECT_EQ(cuda.free_memory(), before);
  });
}

TYPED_TEST(EveryCudaResource, PassesRefusalsOnAndStaysUsable) {
  this->run([](const Library&) {
    TypeParam all;
    expect_it_passes_refusals_on(all.resource, {}, {.fits = 12_GiB, .too_much = 15_GiB});
  });
}

TYPED_TEST(EveryCudaResource, MayBeUsedFromSeveralThreads) {
  this->run([](const Library& cuda) {
    TypeParam all;
    cuda.start();
    const auto stream = [&] { return id_of(cuda.stream(cuda::kStreamNonBlocking)); };
    expect_it_serves_threads(all.resource, {StreamId{}, stream(), stream()}, 200);
  });
}

TYPED_TEST(EveryCudaResource, MayBeWrittenTo) {
  this->run([](const Library&) {
    TypeParam all;
    const auto address = all.resource.allocate(3_MiB, {}).value();
    std::memset(bytes_at(address), 4, (3_MiB).value);
    EXPECT_EQ(bytes_at(address)[(3_MiB).value - 1], 4);
    EXPECT_TRUE(all.resource.deallocate(address, 3_MiB, {}));
  });
}

class AsyncPoolTest : public cuda::Programs {};

TEST_F(AsyncPoolTest, KeepsWhatWasFreedUntilItIsTrimmed) {
  run([](const Library&) {
    const auto pool = AsyncPoolResource::open({.cuda = cuda_options()}).value();
    const auto address = pool->allocate(100_MiB, {}).value();
    EXPECT_EQ(pool->used().value(), 100_MiB);
    ASSERT_TRUE(pool->deallocate(address, 100_MiB, {}));
    EXPECT_EQ(pool->used().value(), 0_B);
    EXPECT_GE(pool->reserved().value(), 100_MiB);
    ASSERT_TRUE(pool->trim());
    EXPECT_EQ(pool->reserved().value(), 0_B);
  });
}

TEST_F(AsyncPoolTest, TrimsWhatItHoldsBeforeItSaysThatMemoryIsOut) {
  run([](const Library&) {
    const auto pool = AsyncPoolResource::open({.cuda = cuda_options()}).value();
    const auto many = pool->allocate(9_GiB, {}).value();
    ASSERT_TRUE(pool->deallocate(many, 9_GiB, {}));
    const auto more = pool->allocate(14_GiB, {});
    EXPECT_TRUE(more) << more.error().message;
  });
}

TEST_F(AsyncPoolTest, SaysThatTheDriverIsTooOld) {
  run(
      [](const Library&) {
        const auto refused = AsyncPoolResource::open({.cuda = cuda_options(0, 450)});
        EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
        EXPECT_THAT(refused.error().message, ::testing::HasSubstr("CUDA 11.2"));
      },
      450);
}

}  // namespace
}  // namespace gpuwarden::memory
