// SPDX-License-Identifier: Apache-2.0
// Virtual memory is real: addresses without pages fault, and pages move with their data.
#include <csignal>

#include "sim_cuda/program.hpp"

namespace gpuwarden::cuda {
namespace {

class VirtualTest : public Programs {
 protected:
  static DevicePointer reserve(const Library& cuda, std::size_t bytes) {
    DevicePointer base = 0;
    EXPECT_EQ(cuda.cuMemAddressReserve(&base, bytes, 0, 0, 0), kSuccess);
    return base;
  }
  /// How a process ends that writes to (or reads) an address.
  static int touch(DevicePointer pointer, bool write = true) {
    Child child([&] {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would end the process in another way
      volatile unsigned char* const byte = bytes_at(pointer);
      if (write) *byte = 1;
      return *byte == 255 ? 1 : 0;
    });
    return child.wait();
  }
};

TEST_F(VirtualTest, HasPagesOfTwoMebibytes) {
  run([](const Library& cuda) {
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    AllocationProperties properties{.type = kAllocationPinned, .location = {kLocationDevice, 0}};
    std::size_t granularity = 0;
    for (const int option : {kGranularityMinimum, kGranularityRecommended}) {
      EXPECT_EQ(cuda.cuMemGetAllocationGranularity(&granularity, &properties, option), kSuccess);
      EXPECT_EQ(granularity, kPage);
    }
    properties.location.id = 7;
    EXPECT_EQ(cuda.cuMemGetAllocationGranularity(&granularity, &properties, 0), kInvalidDevice);
    EXPECT_EQ(cuda.create(1000), 0U) << "no multiple of a page";
  });
}

TEST_F(VirtualTest, IsAccessibleOnlyWhenMappedAndAllowed) {
  run([](const Library& cuda) {
    cuda.start();
    const DevicePointer base = reserve(cuda, 4 * kPage);
    EXPECT_EQ(base % kPage, 0U);
    EXPECT_EQ(touch(base), -SIGSEGV) << "reserved only";
    const AllocationHandle handle = cuda.create(kPage);
    ASSERT_EQ(cuda.cuMemMap(base, kPage, 0, handle, 0), kSuccess);
    EXPECT_EQ(touch(base), -SIGSEGV) << "mapped, but nobody may use it";
    ASSERT_EQ(cuda.allow(base, kPage, kAccessRead), kSuccess);
    EXPECT_EQ(touch(base, false), 0);
    EXPECT_EQ(touch(base), -SIGSEGV) << "read only";
    ASSERT_EQ(cuda.allow(base, kPage), kSuccess);
    EXPECT_EQ(touch(base), 0);
    EXPECT_EQ(touch(base + kPage), -SIGSEGV) << "behind it nothing is mapped";
    ASSERT_EQ(cuda.cuMemUnmap(base, kPage), kSuccess);
    EXPECT_EQ(touch(base), -SIGSEGV);
  });
}

TEST_F(VirtualTest, RemappingMovesThePages) {
  run([](const Library& cuda) {
    cuda.start();
    const DevicePointer base = reserve(cuda, 4 * kPage);
    const AllocationHandle first = cuda.create(kPage);
    const AllocationHandle second = cuda.create(kPage);
    ASSERT_EQ(cuda.cuMemMap(base, kPage, 0, first, 0), kSuccess);
    ASSERT_EQ(cuda.cuMemMap(base + kPage, kPage, 0, second, 0), kSuccess);
    ASSERT_EQ(cuda.allow(base, 2 * kPage), kSuccess) << "several mappings at once";
    EXPECT_EQ(cuda.cuMemsetD8_v2(base, 11, kPage), kSuccess);
    EXPECT_EQ(cuda.cuMemsetD8_v2(base + kPage, 22, kPage), kSuccess);
    ASSERT_EQ(cuda.cuMemUnmap(base, 2 * kPage), kSuccess);
    ASSERT_EQ(cuda.cuMemMap(base + 3 * kPage, kPage, 0, first, 0), kSuccess);
    ASSERT_EQ(cuda.cuMemMap(base + 2 * kPage, kPage, 0, second, 0), kSuccess);
    ASSERT_EQ(cuda.allow(base + 2 * kPage, 2 * kPage), kSuccess);
    EXPECT_EQ(bytes_at(base + 2 * kPage)[0], 22);
    EXPECT_EQ(bytes_at(base + 3 * kPage)[kPage - 1], 11);
    unsigned char across[2] = {};
    EXPECT_EQ(cuda.cuMemcpyDtoH_v2(across, base + 3 * kPage - 1, 2), kSuccess) << "a copy across mappings";
    EXPECT_EQ(across[0], 22);
    EXPECT_EQ(across[1], 11);
  });
}

TEST_F(VirtualTest, TwoMappingsShowTheSamePages) {
  run([](const Library& cuda) {
    cuda.start();
    const DevicePointer base = reserve(cuda, 2 * kPage);
    const AllocationHandle handle = cuda.create(kPage);
    for (const DevicePointer at : {base, base + kPage}) {
      ASSERT_EQ(cuda.cuMemMap(at, kPage, 0, handle, 0), kSuccess);
      ASSERT_EQ(cuda.allow(at, kPage), kSuccess);
    }
    bytes_at(base)[100] = 42;
    EXPECT_EQ(bytes_at(base + kPage)[100], 42);
  });
}

TEST_F(VirtualTest, MemoryLivesUntilHandleAndMappingsAreGone) {
  run([](const Library& cuda) {
    cuda.start();
    const std::uint64_t before = cuda.free_memory();
    const DevicePointer base = reserve(cuda, 64 * kPage);
    const AllocationHandle handle = cuda.create(64 * kPage);
    EXPECT_EQ(before - cuda.free_memory(), 64 * kPage);
    ASSERT_EQ(cuda.cuMemMap(base, 64 * kPage, 0, handle, 0), kSuccess);
    ASSERT_EQ(cuda.allow(base, 64 * kPage), kSuccess);
    EXPECT_EQ(cuda.cuMemRelease(handle), kSuccess);
    bytes_at(base)[0] = 1;
    EXPECT_EQ(before - cuda.free_memory(), 64 * kPage) << "still mapped";
    AllocationHandle again = 0;
    EXPECT_EQ(cuda.cuMemRetainAllocationHandle(&again, bytes_at(base + 5)), kSuccess);
    EXPECT_EQ(cuda.cuMemUnmap(base, 64 * kPage), kSuccess);
    EXPECT_EQ(before - cuda.free_memory(), 64 * kPage) << "still held";
    EXPECT_EQ(cuda.cuMemRelease(again), kSuccess);
    EXPECT_EQ(cuda.free_memory(), before);
    EXPECT_EQ(cuda.cuMemRelease(again), kInvalidValue);
    EXPECT_EQ(cuda.cuMemAddressFree(base, 64 * kPage), kSuccess);
  });
}

TEST_F(VirtualTest, RefusesWhatNvidiasDriverRefuses) {
  run([](const Library& cuda) {
    cuda.start();
    const DevicePointer base = reserve(cuda, 4 * kPage);
    const AllocationHandle handle = cuda.create(2 * kPage);
    EXPECT_EQ(cuda.cuMemMap(base, 4 * kPage, 0, handle, 0), kInvalidValue) << "more than there is";
    EXPECT_EQ(cuda.cuMemMap(base, kPage, kPage, handle, 0), kInvalidValue) << "an offset";
    EXPECT_EQ(cuda.cuMemMap(base + 512, kPage, 0, handle, 0), kInvalidValue);
    EXPECT_EQ(cuda.cuMemMap(base + 3 * kPage, 2 * kPage, 0, handle, 0), kInvalidValue) << "past the reservation";
    EXPECT_EQ(cuda.cuMemMap(base, 2 * kPage, 0, handle + 16, 0), kInvalidValue);
    ASSERT_EQ(cuda.cuMemMap(base, 2 * kPage, 0, handle, 0), kSuccess);
    EXPECT_EQ(cuda.cuMemMap(base + kPage, 2 * kPage, 0, handle, 0), kInvalidValue) << "mapped already";
    EXPECT_EQ(cuda.allow(base, 4 * kPage), kInvalidValue) << "half of it is not mapped";
    EXPECT_EQ(cuda.cuMemsetD8_v2(base, 1, 1), kInvalidValue) << "no access yet";
    EXPECT_EQ(cuda.cuMemUnmap(base, kPage), kInvalidValue) << "part of a mapping";
    EXPECT_EQ(cuda.cuMemAddressFree(base, 4 * kPage), kInvalidValue) << "something is mapped there";
    EXPECT_EQ(cuda.cuMemUnmap(base, 2 * kPage), kSuccess);
    EXPECT_EQ(cuda.cuMemAddressFree(base, 2 * kPage), kInvalidValue) << "part of a reservation";
    EXPECT_EQ(cuda.cuMemAddressFree(base, 4 * kPage), kSuccess);
    EXPECT_EQ(cuda.cuMemUnmap(base, 2 * kPage), kInvalidValue);
  });
}

TEST_F(VirtualTest, TellsAccessAndProperties) {
  run([](const Library& cuda) {
    cuda.start();
    const DevicePointer base = reserve(cuda, kPage);
    const AllocationHandle handle = cuda.create(kPage, kHandlePosixFd, 1);
    ASSERT_EQ(cuda.cuMemMap(base, kPage, 0, handle, 0), kSuccess);
    ASSERT_EQ(cuda.allow(base, kPage, kAccessReadWrite, 1), kSuccess);
    unsigned long long flags = 9;
    Location location{kLocationDevice, 1};
    EXPECT_EQ(cuda.cuMemGetAccess(&flags, &location, base), kSuccess);
    EXPECT_EQ(flags, static_cast<unsigned long long>(kAccessReadWrite));
    location.id = 0;
    EXPECT_EQ(cuda.cuMemGetAccess(&flags, &location, base), kSuccess);
    EXPECT_EQ(flags, static_cast<unsigned long long>(kAccessNone));
    AllocationProperties properties{};
    EXPECT_EQ(cuda.cuMemGetAllocationPropertiesFromHandle(&properties, handle), kSuccess);
    EXPECT_EQ(properties.location.id, 1);
    EXPECT_EQ(properties.handle_types, kHandlePosixFd);
  });
}

TEST_F(VirtualTest, ReservesFarMoreThanThereIs) {
  run([](const Library& cuda) {
    cuda.start();
    const std::uint64_t before = cuda.free_memory();
    const std::size_t terabyte = std::size_t{1} << 40U;
    DevicePointer base = 0;
    ASSERT_EQ(cuda.cuMemAddressReserve(&base, terabyte, std::size_t{1} << 30U, 0, 0), kSuccess);
    EXPECT_EQ(base % (std::size_t{1} << 30U), 0U);
    EXPECT_EQ(cuda.free_memory(), before) << "addresses cost nothing";
    EXPECT_EQ(cuda.cuMemAddressFree(base, terabyte), kSuccess);
    DevicePointer again = 0;
    EXPECT_EQ(cuda.cuMemAddressReserve(&again, kPage, 0, base, 0), kSuccess);
    EXPECT_EQ(again, base) << "a wish is heeded where it can be";
    EXPECT_EQ(cuda.cuMemAddressReserve(&base, std::size_t{1} << 60U, 0, 0, 0), kOutOfMemory);
  });
}

TEST_F(VirtualTest, HoldsThousandsOfHandlesWithoutDescriptors) {
  run([](const Library& cuda) {
    cuda.start();
    constexpr std::size_t kCount = 4000;
    const DevicePointer base = reserve(cuda, kCount * kPage);
    for (std::size_t i = 0; i < kCount; ++i) {
      const AllocationHandle handle = cuda.create(kPage);
      ASSERT_NE(handle, 0U) << i;
      ASSERT_EQ(cuda.cuMemMap(base + i * kPage, kPage, 0, handle, 0), kSuccess);
      ASSERT_EQ(cuda.cuMemRelease(handle), kSuccess);
    }
    EXPECT_EQ(cuda.allow(base, kCount * kPage), kSuccess);
    bytes_at(base)[(kCount - 1) * kPage] = 1;
    EXPECT_EQ(cuda.cuMemUnmap(base, kCount * kPage), kSuccess);
  });
}

}  // namespace
}  // namespace gpuwarden::cuda
