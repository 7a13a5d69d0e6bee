// SPDX-License-Identifier: Apache-2.0
// Buffers that move, blocks that several streams use, and idle memory that goes back, on the CUDA driver.
#include "gpuwarden/memory/movable.hpp"

#include <cstring>

#include "memory_cuda/scene.hpp"

namespace gpuwarden::memory {
namespace {

class CudaMovableTest : public cuda::Programs {};

TEST_F(CudaMovableTest, BuffersMoveWithWhatIsInThemAndPagesGoBack) {
  run([](const Library&) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {}).value();
    MovableMemory memory(*pool);
    std::vector<MovableId> survivors;
    std::vector<MovableId> others;
    for (int i = 0; i < 128; ++i) {
      const auto id = memory.allocate(256_KiB, {}).value();
      const auto pinned = memory.pin(id, {}).value();
      std::memset(bytes_at(pinned.address), i, pinned.size.value);
      ASSERT_TRUE(memory.unpin(id, {}));
      (i % 8 == 0 ? survivors : others).push_back(id);
    }
    for (const MovableId id : others) ASSERT_TRUE(memory.deallocate(id));
    while (memory.defragment().value().moves != 0) continue;
    EXPECT_EQ(memory.statistics().pages_freed, 14U);
    static_cast<void>(pool->trim());
    EXPECT_EQ(pool->status().reserved, 4_MiB);
    EXPECT_EQ(device->memory().value().total - device->memory().value().free, 4_MiB);
    for (std::size_t i = 0; i < survivors.size(); ++i) {
      const auto pinned = memory.pin(survivors[i], {}).value();
      EXPECT_EQ(bytes_at(pinned.address)[0], i * 8);
      EXPECT_EQ(bytes_at(pinned.address)[pinned.size.value - 1], i * 8);
      ASSERT_TRUE(memory.unpin(survivors[i], {}));
    }
  });
}

TEST_F(CudaMovableTest, ABlockWaitsForEveryStreamThatUsesIt) {
  run([](const Library& cuda) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {.limit = 64_MiB}).value();
    cuda.start();
    const cuda::Stream own = cuda.stream(cuda::kStreamNonBlocking);
    const cuda::Stream other = cuda.stream(cuda::kStreamNonBlocking);
    cuda.stop_clock();
    const auto address = pool->allocate(60_MiB, id_of(own)).value();
    ASSERT_TRUE(pool->record_stream(address, id_of(other)));
    cuda.work(other, 5000);
    ASSERT_TRUE(pool->deallocate(address, id_of(own)));
    EXPECT_EQ(pool->status().cached, 60_MiB);
    EXPECT_EQ(cuda.cuStreamQuery(own), cuda::kSuccess);
    // Nothing else is left: the stream gets the block back, and waits for the other.
    EXPECT_EQ(pool->allocate(60_MiB, id_of(own)).value(), address);
    EXPECT_EQ(cuda.cuStreamQuery(own), cuda::kNotReady);
    cuda.advance(6000);
    EXPECT_EQ(cuda.cuStreamQuery(own), cuda::kSuccess);
    EXPECT_FALSE(device->is_capturing(id_of(own)));
    ASSERT_TRUE(pool->deallocate(address, id_of(own)));
  });
}

}  // namespace
}  // namespace gpuwarden::memory
