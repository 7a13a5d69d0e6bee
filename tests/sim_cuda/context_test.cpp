// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "sim_cuda/program.hpp"

namespace gpuwarden::cuda {
namespace {

class ContextTest : public Programs {};

TEST_F(ContextTest, ThePrimaryContextIsOneHoweverOftenItIsRetained) {
  run([](const Library& cuda) {
    const Context first = cuda.start();
    EXPECT_EQ(cuda.start(), first);
    unsigned flags = 0;
    int active = 0;
    EXPECT_EQ(cuda.cuDevicePrimaryCtxGetState(0, &flags, &active), kSuccess);
    EXPECT_EQ(active, 1);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease_v2(0), kSuccess);
    EXPECT_NE(cuda.allocate(1), 0U) << "one reference is left";
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease_v2(0), kSuccess);
    DevicePointer pointer = 0;
    EXPECT_EQ(cuda.cuMemAlloc_v2(&pointer, 1), kContextIsDestroyed);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease_v2(0), kInvalidContext);
  });
}

TEST_F(ContextTest, NothingWorksWithoutOne) {
  run([](const Library& cuda) {
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    DevicePointer pointer = 0;
    EXPECT_EQ(cuda.cuMemAlloc_v2(&pointer, 1), kInvalidContext);
    cuda.start();
    std::jthread([&] { EXPECT_EQ(cuda.cuMemAlloc_v2(&pointer, 1), kInvalidContext) << "each thread has its own"; });
  });
}

TEST_F(ContextTest, AreStacked) {
  run([](const Library& cuda) {
    const Context primary = cuda.start(0);
    Context other = nullptr;
    Context current = nullptr;
    ASSERT_EQ(cuda.cuCtxCreate_v2(&other, 0, 1), kSuccess);
    Device device = -1;
    EXPECT_EQ(cuda.cuCtxGetDevice(&device), kSuccess);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(cuda.cuCtxPopCurrent_v2(&current), kSuccess);
    EXPECT_EQ(current, other);
    EXPECT_EQ(cuda.cuCtxGetCurrent(&current), kSuccess);
    EXPECT_EQ(current, primary);
    EXPECT_EQ(cuda.cuCtxPushCurrent_v2(other), kSuccess);
    EXPECT_EQ(cuda.cuCtxDestroy_v2(other), kSuccess);
    EXPECT_EQ(cuda.cuCtxGetCurrent(&current), kSuccess);
    EXPECT_EQ(current, primary);
    EXPECT_EQ(cuda.cuCtxDestroy_v2(other), kInvalidContext);
    EXPECT_EQ(cuda.cuCtxDestroy_v2(primary), kInvalidContext) << "a primary context is released, not destroyed";
  });
}

TEST_F(ContextTest, TakesItsMemoryWithIt) {
  run([](const Library& cuda) {
    cuda.start();
    const std::uint64_t before = cuda.free_memory();
    ASSERT_NE(cuda.allocate(64 * kMiB), 0U);
    ASSERT_NE(cuda.allocate(1000), 0U);
    const DevicePointer lost = cuda.allocate(5 * kMiB);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxReset_v2(0), kSuccess);
    cuda.start();
    EXPECT_EQ(cuda.free_memory(), before);
    EXPECT_EQ(cuda.cuMemFree_v2(lost), kInvalidValue);
  });
}

TEST_F(ContextTest, CostsMemoryByTheSizeOfTheGpu) {
  use("gpus: [{model: NVIDIA H100 80GB HBM3}]\n");
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_EQ(cuda.free_memory(), (81559 - 551 - 3 * 132) * kMiB);
  });
}

TEST_F(ContextTest, IsRefusedByTheComputeMode) {
  use("gpus: [{model: Tesla T4, readings: {compute_mode: 2}}]\n");
  run([](const Library& cuda) {
    Context context = nullptr;
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, 0), kDevicesUnavailable);
  });
  use("gpus: [{model: Tesla T4, readings: {compute_mode: 3}}]\n");
  const Signal started;
  const auto first = begin([&](const Library& cuda) {
    cuda.start();
    started.send();
    ::pause();
  });
  started.wait();
  run([](const Library& cuda) {
    Context context = nullptr;
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, 0), kDevicesUnavailable) << "another process has it";
  });
}

TEST_F(ContextTest, KeepsLimitsAndPriorities) {
  run([](const Library& cuda) {
    cuda.start();
    std::size_t value = 0;
    EXPECT_EQ(cuda.cuCtxGetLimit(&value, kLimitStackSize), kSuccess);
    EXPECT_EQ(value, 1024U);
    EXPECT_EQ(cuda.cuCtxSetLimit(kLimitMallocHeapSize, 1 << 25), kSuccess);
    EXPECT_EQ(cuda.cuCtxGetLimit(&value, kLimitMallocHeapSize), kSuccess);
    EXPECT_EQ(value, std::size_t{1} << 25U);
    EXPECT_EQ(cuda.cuCtxGetLimit(&value, 77), kUnsupportedLimit);
    int least = 9;
    int greatest = 9;
    EXPECT_EQ(cuda.cuCtxGetStreamPriorityRange(&least, &greatest), kSuccess);
    EXPECT_EQ(least, 0);
    EXPECT_EQ(greatest, -5);
  });
}

}  // namespace
}  // namespace gpuwarden::cuda
