// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated, copied, filled and asked about.
#include <numeric>

#include "sim_cuda/program.hpp"

namespace gpuwarden::cuda {
namespace {

using ::testing::Each;

class MemoryTest : public Programs {};

TEST_F(MemoryTest, IsTakenInPagesThatSmallBlocksShare) {
  run([](const Library& cuda) {
    cuda.start();
    const std::uint64_t before = cuda.free_memory();
    const DevicePointer first = cuda.allocate(1);
    const DevicePointer second = cuda.allocate(1000);
    EXPECT_EQ(first % 512, 0U);
    EXPECT_EQ(second % 512, 0U);
    EXPECT_EQ(before - cuda.free_memory(), kPage);
    const DevicePointer large = cuda.allocate(3 * kMiB);
    EXPECT_EQ(before - cuda.free_memory(), kPage + 4 * kMiB);
    for (const DevicePointer pointer : {first, second, large}) EXPECT_EQ(cuda.cuMemFree_v2(pointer), kSuccess);
    EXPECT_EQ(cuda.free_memory(), before);
  });
}

TEST_F(MemoryTest, RunsOut) {
  run([](const Library& cuda) {
    cuda.start();
    const std::uint64_t all = cuda.free_memory();
    EXPECT_EQ(all, (15360 - 272) * kMiB);
    const DevicePointer whole = cuda.allocate(all);
    ASSERT_NE(whole, 0U) << "backed lazily: the host need not have it";
    DevicePointer pointer = 0;
    EXPECT_EQ(cuda.cuMemAlloc_v2(&pointer, 1), kOutOfMemory);
    bytes_at(whole)[all - 1] = 7;
    EXPECT_EQ(cuda.cuMemFree_v2(whole), kSuccess);
    EXPECT_NE(cuda.allocate(1), 0U);
  });
}

TEST_F(MemoryTest, RefusesWhatMakesNoSense) {
  run([](const Library& cuda) {
    cuda.start();
    DevicePointer pointer = 0;
    EXPECT_EQ(cuda.cuMemAlloc_v2(&pointer, 0), kInvalidValue);
    EXPECT_EQ(cuda.cuMemAlloc_v2(nullptr, 1), kInvalidValue);
    EXPECT_EQ(cuda.cuMemAlloc_v2(&pointer, ~std::size_t{0}), kOutOfMemory);
    EXPECT_EQ(cuda.cuMemFree_v2(0), kSuccess);
    EXPECT_EQ(cuda.cuMemFree_v2(12345), kInvalidValue);
    pointer = cuda.allocate(4 * kMiB);
    EXPECT_EQ(cuda.cuMemFree_v2(pointer + 512), kInvalidValue);
    EXPECT_EQ(cuda.cuMemFree_v2(pointer), kSuccess);
    EXPECT_EQ(cuda.cuMemFree_v2(pointer), kInvalidValue) << "twice";
  });
}

TEST_F(MemoryTest, IsCopiedThereAndBack) {
  run([](const Library& cuda) {
    cuda.start();
    std::vector<int> out(10000);
    std::vector<int> back(10000);
    std::iota(out.begin(), out.end(), 1);
    const std::size_t bytes = out.size() * sizeof(int);
    const DevicePointer first = cuda.allocate(bytes);
    const DevicePointer second = cuda.allocate(bytes);
    EXPECT_EQ(cuda.cuMemcpyHtoD_v2(first, out.data(), bytes), kSuccess);
    EXPECT_EQ(cuda.cuMemcpyDtoD_v2(second, first, bytes), kSuccess);
    EXPECT_EQ(cuda.cuMemcpyDtoH_v2(back.data(), second, bytes), kSuccess);
    EXPECT_EQ(back, out);
    EXPECT_EQ(cuda.cuMemcpyHtoD_v2(first, out.data(), bytes + 1), kInvalidValue) << "more than was allocated";
    EXPECT_EQ(cuda.cuMemcpyHtoD_v2(0, out.data(), 4), kInvalidValue);
    EXPECT_EQ(cuda.cuMemcpyHtoD_v2(0x10000, out.data(), 4), kInvalidValue);
    const auto from = reinterpret_cast<DevicePointer>(back.data());
    EXPECT_EQ(cuda.cuMemcpy(first, from, 4), kSuccess) << "which is which the addresses tell";
    EXPECT_EQ(cuda.cuMemcpyHtoD_v2(first, out.data(), 0), kSuccess);
  });
}

TEST_F(MemoryTest, IsCopiedInRows) {
  run([](const Library& cuda) {
    cuda.start();
    DevicePointer pointer = 0;
    std::size_t pitch = 0;
    ASSERT_EQ(cuda.cuMemAllocPitch_v2(&pointer, &pitch, 10, 3, 4), kSuccess);
    EXPECT_EQ(pitch % 512, 0U);
    std::array<unsigned char, 30> host{};
    std::iota(host.begin(), host.end(), std::uint8_t{1});
    Copy2D copy{.source_type = kMemoryHost,
                .source_host = host.data(),
                .source_pitch = 10,
                .target_type = kMemoryDevice,
                .target_device = pointer,
                .target_pitch = pitch,
                .width = 10,
                .height = 3};
    EXPECT_EQ(cuda.cuMemcpy2D_v2(&copy), kSuccess);
    EXPECT_EQ(bytes_at(pointer + 2 * pitch)[9], 30);
    EXPECT_EQ(cuda.cuMemsetD2D8_v2(pointer, pitch, 9, 10, 2), kSuccess);
    EXPECT_EQ(bytes_at(pointer + pitch)[9], 9);
    EXPECT_EQ(bytes_at(pointer + 2 * pitch)[0], 21);
    copy.height = 100;
    EXPECT_EQ(cuda.cuMemcpy2D_v2(&copy), kInvalidValue);
    copy.target_type = kMemoryArray;
    EXPECT_EQ(cuda.cuMemcpy2D_v2(&copy), kNotSupported);
  });
}

TEST_F(MemoryTest, IsCopiedBetweenDevices) {
  run([](const Library& cuda) {
    const Context other = cuda.start(1);
    const DevicePointer there = cuda.allocate(100);
    EXPECT_EQ(cuda.cuMemsetD8_v2(there, 7, 100), kSuccess);
    const Context own = cuda.start(0);
    const DevicePointer here = cuda.allocate(100);
    EXPECT_EQ(cuda.cuMemcpyPeer(here, own, there, other, 100), kSuccess);
    EXPECT_EQ(bytes_at(here)[99], 7);
    EXPECT_EQ(cuda.cuMemcpyPeerAsync(here, own, there + 50, other, 51, nullptr), kInvalidValue);
  });
}

TEST_F(MemoryTest, IsFilled) {
  run([](const Library& cuda) {
    cuda.start();
    const DevicePointer pointer = cuda.allocate(64);
    EXPECT_EQ(cuda.cuMemsetD32_v2(pointer, 0x01020304, 16), kSuccess);
    EXPECT_EQ(bytes_at(pointer)[60], 4);
    EXPECT_EQ(cuda.cuMemsetD16_v2(pointer, 0x0A0B, 2), kSuccess);
    EXPECT_EQ(bytes_at(pointer)[3], 0x0A);
    EXPECT_EQ(cuda.cuMemsetD8Async(pointer, 5, 64, nullptr), kSuccess);
    EXPECT_THAT(std::vector<int>(bytes_at(pointer), bytes_at(pointer) + 64), Each(5));
    EXPECT_EQ(cuda.cuMemsetD8_v2(pointer, 5, 65), kInvalidValue);
    EXPECT_EQ(cuda.cuMemsetD32_v2(pointer + 2, 5, 1), kInvalidValue) << "not aligned";
  });
}

TEST_F(MemoryTest, OfTheHostIsPinnedOrRegistered) {
  run([](const Library& cuda) {
    cuda.start();
    void* pinned = nullptr;
    ASSERT_EQ(cuda.cuMemHostAlloc(&pinned, 1000, kHostPortable), kSuccess);
    std::memset(pinned, 1, 1000);
    DevicePointer device = 0;
    EXPECT_EQ(cuda.cuMemHostGetDevicePointer_v2(&device, pinned, 0), kSuccess);
    EXPECT_EQ(device, reinterpret_cast<DevicePointer>(pinned));
    unsigned flags = 0;
    EXPECT_EQ(cuda.cuMemHostGetFlags(&flags, pinned), kSuccess);
    EXPECT_EQ(flags & kHostPortable, kHostPortable);
    EXPECT_EQ(cuda.cuMemFree_v2(device), kInvalidValue);
    EXPECT_EQ(cuda.cuMemFreeHost(pinned), kSuccess);
    EXPECT_EQ(cuda.cuMemFreeHost(pinned), kInvalidValue);
    std::vector<char> own(10000);
    EXPECT_EQ(cuda.cuMemHostRegister_v2(own.data(), own.size(), 0), kSuccess);
    EXPECT_EQ(cuda.cuMemHostRegister_v2(own.data() + 100, 10, 0), kHostMemoryAlreadyRegistered);
    EXPECT_EQ(cuda.cuMemHostUnregister(own.data()), kSuccess);
    EXPECT_EQ(cuda.cuMemHostUnregister(own.data()), kHostMemoryNotRegistered);
  });
}

template <class Value>
Value attribute(const Library& cuda, int which, DevicePointer pointer) {
  Value value{};
  EXPECT_EQ(cuda.cuPointerGetAttribute(&value, which, pointer), kSuccess) << which;
  return value;
}

TEST_F(MemoryTest, TellsWhatAnAddressIs) {
  run([](const Library& cuda) {
    const Context context = cuda.start(1);
    const DevicePointer pointer = cuda.allocate(1000);
    EXPECT_EQ(attribute<unsigned>(cuda, kPointerMemoryType, pointer + 5), static_cast<unsigned>(kMemoryDevice));
    EXPECT_EQ(attribute<int>(cuda, kPointerDeviceOrdinal, pointer), 1);
    EXPECT_EQ(attribute<Context>(cuda, kPointerContext, pointer), context);
    EXPECT_EQ(attribute<DevicePointer>(cuda, kPointerRangeStart, pointer + 999), pointer);
    EXPECT_EQ(attribute<std::size_t>(cuda, kPointerRangeSize, pointer), 1000U);
    EXPECT_NE(attribute<unsigned long long>(cuda, kPointerBufferId, pointer),
              attribute<unsigned long long>(cuda, kPointerBufferId, cuda.allocate(1)));
    unsigned type = 0;
    EXPECT_EQ(cuda.cuPointerGetAttribute(&type, kPointerMemoryType, pointer + 1000), kInvalidValue);
    std::array<int, 2> which{kPointerMemoryType, kPointerDeviceOrdinal};
    int ordinal = 0;
    std::array<void*, 2> out{&type, &ordinal};
    EXPECT_EQ(cuda.cuPointerGetAttributes(2, which.data(), out.data(), reinterpret_cast<DevicePointer>(&type)),
              kSuccess);
    EXPECT_EQ(type, 0U) << "the host's own memory";
    EXPECT_EQ(ordinal, -2);
    DevicePointer base = 0;
    std::size_t size = 0;
    EXPECT_EQ(cuda.cuMemGetAddressRange_v2(&base, &size, pointer + 10), kSuccess);
    EXPECT_EQ(base, pointer);
    EXPECT_EQ(size, 1000U);
  });
}

TEST_F(MemoryTest, OfAMigInstanceIsTheInstancesAlone) {
  use("cuda_context_memory: 0MiB\ngpus: [{model: NVIDIA A100-SXM4-40GB, mig: {enabled: true, instances: [1g.5gb, "
      "2g.10gb]}}]\n");
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_EQ(cuda.free_memory(), 4864 * kMiB);
    EXPECT_EQ(cuda.allocate(5000 * kMiB), 0U);
    EXPECT_NE(cuda.allocate(4000 * kMiB), 0U);
  });
}

TEST_F(MemoryTest, ScriptedProcessesHoldTheirShare) {
  use("cuda_context_memory: 0MiB\ngpus: [{model: Tesla T4, processes: [{pid: 4190000, memory: 10GiB}]}]\n");
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_EQ(cuda.free_memory(), (15360 - 272 - 10240) * kMiB);
    EXPECT_EQ(cuda.allocate(6000 * kMiB), 0U);
  });
}

}  // namespace
}  // namespace gpuwarden::cuda
