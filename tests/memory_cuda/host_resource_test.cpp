// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/host_resource.hpp"

#include <thread>

#include "memory_cuda/scene.hpp"

namespace gpuwarden::memory {
namespace {

/// Counts what an upstream gives; refuses beyond a limit.
class CountingResource final : public std::pmr::memory_resource {
 public:
  std::size_t held = 0;
  std::size_t most = ~std::size_t{0};
  unsigned calls = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++calls;
    if (bytes > most - held) throw std::bad_alloc();
    held += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    held -= bytes;
    std::pmr::new_delete_resource()->deallocate(pointer, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

TEST(HostPoolResource, UsesMemoryOfTheSameSizeClassAgain) {
  CountingResource upstream;
  {
    HostPoolResource pool(upstream);
    void* const first = pool.allocate(5'000'000);
    const unsigned calls = upstream.calls;
    pool.deallocate(first, 5'000'000);
    EXPECT_EQ(pool.cached(), Bytes(5'242'880)) << "an eighth of 4 MiB at a time";
    EXPECT_EQ(pool.allocate(5'200'000), first);
    EXPECT_EQ(upstream.calls, calls);
    pool.deallocate(first, 5'200'000);
    unsigned calls_for_one = 0;
    for (int round = 0; round < 2; ++round) {
      std::pmr::vector<int> many(&pool);
      for (int i = 0; i < 100'000; ++i) many.push_back(i);
      EXPECT_EQ(many[99'999], 99'999);
      if (round == 0) calls_for_one = upstream.calls;
    }
    EXPECT_EQ(upstream.calls, calls_for_one) << "the second one found all it needed";
    EXPECT_GE(pool.trim(), Bytes(5'242'880));
    EXPECT_EQ(pool.cached(), 0_B);
  }
  EXPECT_EQ(upstream.held, 0U);
}

TEST(HostPoolResource, GivesBackWhatItKeepsBeforeItFails) {
  CountingResource upstream;
  upstream.most = 10'000'000;
  HostPoolResource pool(upstream);
  pool.deallocate(pool.allocate(4'000'000), 4'000'000);
  void* const large = pool.allocate(8'000'000);
  EXPECT_THROW(static_cast<void>(pool.allocate(8'000'000)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(pool.allocate(std::size_t{1} << 62U)), std::bad_alloc);
  pool.deallocate(large, 8'000'000);
}

TEST(HostPoolResource, AlignsAsAsked) {
  CountingResource upstream;
  HostPoolResource pool(upstream);
  for (const std::size_t alignment : {8U, 64U, 4096U, 65536U}) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{3'000'000}}) {
      void* const pointer = pool.allocate(size, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % alignment, 0U) << alignment;
      pool.deallocate(pointer, size, alignment);
    }
  }
}

class PinnedHostTest : public cuda::Programs {};

TEST_F(PinnedHostTest, GivesPageLockedMemoryThroughThePool) {
  run([](const Library& cuda) {
    const auto pinned = PinnedHostResource::open(cuda_options()).value();
    HostPoolResource pool(*pinned);
    cuda.start();
    std::pmr::vector<float> values(1'000'000, 1.5F, &pool);
    unsigned flags = 0;
    EXPECT_EQ(cuda.cuMemHostGetFlags(&flags, values.data()), cuda::kSuccess) << "the driver knows it";
    EXPECT_EQ(flags & cuda::kHostPortable, cuda::kHostPortable);
    std::jthread([&] {
      std::pmr::vector<float> others(500'000, &pool);
      EXPECT_EQ(others[0], 0);
    }).join();
    plan_failure(cuda, "cuMemHostAlloc", cuda::kOutOfMemory);
    EXPECT_THROW(static_cast<void>(pinned->allocate(100)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(pinned->allocate(100, 8192)), std::bad_alloc);
  });
}

}  // namespace
}  // namespace gpuwarden::memory
