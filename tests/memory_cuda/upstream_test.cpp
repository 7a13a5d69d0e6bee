// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a pool's upstream: what is mapped, what is undone, which error is which.
#include <cstring>
#include <thread>

#include "memory_cuda/scene.hpp"

namespace gpuwarden::memory {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class CudaUpstreamTest : public cuda::Programs {};

TEST_F(CudaUpstreamTest, APoolGivesOutMemoryThatCanBeWritten) {
  run([](const Library&) {
    const auto device = open_device();
    EXPECT_THAT(device->uuid().value, ::testing::StartsWith("GPU-"));
    const auto pool = Pool::create(*device, {}).value();
    const auto first = pool->allocate(5_MiB, {}).value();
    const auto second = pool->allocate(3000_B, {}).value();
    std::memset(bytes_at(first), 1, (5_MiB).value);
    std::memset(bytes_at(second), 2, 3000);
    EXPECT_EQ(bytes_at(first)[(5_MiB).value - 1], 1);
    EXPECT_EQ(device->memory().value().total - device->memory().value().free, pool->status().reserved);
    EXPECT_TRUE(pool->deallocate(first, {}));
    EXPECT_TRUE(pool->deallocate(second, {}));
    EXPECT_EQ(pool->trim().value(), 8_MiB);
    EXPECT_EQ(device->memory().value().free, device->memory().value().total);
  });
}

TEST_F(CudaUpstreamTest, PagesMoveWithWhatIsInThem) {
  run([](const Library&) {
    const auto device = open_device();
    std::array<PageHandle, 4> pages{};
    ASSERT_TRUE(device->create(pages));
    const auto base = device->reserve(64_MiB).value();
    ASSERT_TRUE(device->map(base, pages));
    std::memset(bytes_at(base), 77, (8_MiB).value);
    ASSERT_TRUE(device->unmap(base, 8_MiB));
    const DeviceAddress elsewhere{base.value + (32_MiB).value};
    std::swap(pages[0], pages[3]);
    ASSERT_TRUE(device->map(elsewhere, pages));
    EXPECT_EQ(bytes_at(elsewhere)[0], 77);
    EXPECT_EQ(bytes_at(elsewhere)[(8_MiB).value - 1], 77);
    ASSERT_TRUE(device->unmap(elsewhere, 8_MiB));
    ASSERT_TRUE(device->destroy(pages));
    EXPECT_TRUE(device->release(base, 64_MiB));
  });
}

TEST_F(CudaUpstreamTest, ARangeOfPagesIsOneSetAccess) {
  run([](const Library& cuda) {
    const auto device = open_device();
    std::array<PageHandle, 16> pages{};
    ASSERT_TRUE(device->create(pages));
    const auto base = device->reserve(32_MiB).value();
    plan_failure(cuda, "cuMemSetAccess", cuda::kInvalidValue, 1);
    ASSERT_TRUE(device->map(base, pages));
    ASSERT_TRUE(device->unmap(base, 32_MiB));
    EXPECT_FALSE(device->map(base, pages)) << "the second call of it";
  });
}

TEST_F(CudaUpstreamTest, WhatFailsHalfwayIsUndone) {
  run([](const Library& cuda) {
    const auto device = open_device();
    std::array<PageHandle, 8> pages{};
    const Bytes before = device->memory().value().free;
    plan_failure(cuda, "cuMemCreate", cuda::kOutOfMemory, 5);
    const auto created = device->create(pages);
    EXPECT_EQ(created.error().code, ErrorCode::unsatisfied);
    EXPECT_EQ(created.error().message, "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    EXPECT_EQ(device->memory().value().free, before);
    EXPECT_THAT(pages, Each(PageHandle{}));

    ASSERT_TRUE(device->create(pages));
    const auto base = device->reserve(16_MiB).value();
    for (const auto* const function : {"cuMemMap", "cuMemSetAccess"}) {
      plan_failure(cuda, function, cuda::kInvalidValue, function[5] == 'M' ? 3 : 0);
      EXPECT_EQ(device->map(base, pages).error().code, ErrorCode::failed) << function;
      EXPECT_TRUE(cuda.call({{"op", "cuda_state"}})["ranges"].empty()) << function;
    }
    EXPECT_TRUE(device->map(base, pages));
  });
}

TEST_F(CudaUpstreamTest, EveryCallMayFailOnceAndNothingIsLeft) {
  run([](const Library& cuda) {
    unsigned refused = 0;
    cuda.start();
    for (std::int64_t failing = 0; failing < 160; ++failing) {
      {
        const auto device = open_device();
        const cuda::Stream other = cuda.stream(cuda::kStreamNonBlocking);
        const auto pool = Pool::create(*device, {.limit = 64_MiB}).value();
        const int code = failing % 2 == 0 ? cuda::kOutOfMemory : cuda::kInvalidValue;
        plan_failure(cuda, "*", code, failing);
        std::vector<std::pair<DeviceAddress, StreamId>> live;
        for (unsigned i = 0; i < 40; ++i) {
          const StreamId stream = i % 3 == 0 ? id_of(other) : StreamId{};
          const auto address = pool->allocate(Bytes(700'000 * (1 + i % 9)), stream);
          refused += address ? 0 : 1;
          if (address) live.emplace_back(*address, stream);
          if (i % 4 != 3 || live.empty()) continue;
          EXPECT_TRUE(pool->deallocate(live.front().first, live.back().second));
          live.erase(live.begin());
        }
        EXPECT_TRUE(pool->check());
        for (const auto& [address, stream] : live) EXPECT_TRUE(pool->deallocate(address, stream));
        EXPECT_EQ(pool->status().live, 0_B);
        EXPECT_TRUE(pool->check());
        cuda.call({{"op", "cuda_clear"}});
        EXPECT_EQ(cuda.cuStreamDestroy_v2(other), cuda::kSuccess);
      }
      ASSERT_THAT(leftovers(cuda), Each(0U)) << "after the failure of call " << failing;
    }
    EXPECT_GT(refused, 0U) << "no failure was felt";
  });
}

TEST_F(CudaUpstreamTest, TellsOutOfMemoryFromABrokenContext) {
  run([](const Library& cuda) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {}).value();
    const auto kept = pool->allocate(100_MiB, {}).value();
    const auto refused = pool->allocate(16_GiB, {});
    EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
    EXPECT_THAT(refused.error().message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
    EXPECT_TRUE(pool->allocate(1_MiB, {}));

    plan_failure(cuda, "cuMemCreate", cuda::kIllegalAddress);
    EXPECT_TRUE(pool->allocate(300_MiB, {})) << "one call was refused, and the next rung went well";

    plan_failure(cuda, "cuMemCreate", cuda::kIllegalAddress, 0, true);
    const auto broken = pool->allocate(400_MiB, {});
    EXPECT_EQ(broken.error().code, ErrorCode::unavailable);
    EXPECT_THAT(broken.error().message, HasSubstr("context is gone"));
    EXPECT_EQ(device->memory().error().code, ErrorCode::unavailable);
    EXPECT_THAT(device->memory().error().message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    EXPECT_TRUE(pool->deallocate(kept, {})) << "the pool's own books still work";
  });
}

TEST_F(CudaUpstreamTest, AContextDestroyedUnderThePoolIsToldAndSurvived) {
  run([](const Library& cuda) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {}).value();
    ASSERT_TRUE(pool->allocate(10_MiB, {}));
    ASSERT_EQ(cuda.cuDevicePrimaryCtxReset_v2(0), cuda::kSuccess);
    const auto refused = pool->allocate(100_MiB, {});
    EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
    EXPECT_THAT(refused.error().hint, HasSubstr("end the process"));
    EXPECT_EQ(device->record({}).error().code, ErrorCode::unavailable);
    EXPECT_FALSE(pool->trim().value_or(0_B) > 0_B);
  });
}

TEST_F(CudaUpstreamTest, AForkedChildIsRefusedAndLeavesTheParentAlone) {
  run([](const Library& cuda) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {}).value();
    const auto address = pool->allocate(10_MiB, {}).value();
    cuda::Child child([&] {
      const auto refused = pool->allocate(1_MiB, {});
      const auto memory = device->memory();
      const bool good = !refused && refused.error().code == ErrorCode::unavailable && !memory &&
                        memory.error().code == ErrorCode::unavailable;
      return good ? 7 : 8;
    });
    EXPECT_EQ(child.wait(), 7);
    bytes_at(address)[0] = 5;
    EXPECT_EQ(cuda.cuCtxPushCurrent_v2(cuda.start()), cuda::kSuccess);
    EXPECT_EQ(cuda.free_memory(), (15360 - 272) * cuda::kMiB - (10_MiB).value);
    EXPECT_TRUE(pool->deallocate(address, {}));
  });
}

TEST_F(CudaUpstreamTest, OtherStreamsGetMemoryWhenTheWorkOnItIsDone) {
  run([](const Library& cuda) {
    const auto device = open_device();
    cuda.start();
    const cuda::Stream first_stream = cuda.stream(cuda::kStreamNonBlocking);
    const StreamId first = id_of(first_stream);
    const StreamId second = id_of(cuda.stream(cuda::kStreamNonBlocking));
    cuda.stop_clock();
    const auto event = device->record(first).value();
    EXPECT_TRUE(device->is_done(event).value());
    ASSERT_TRUE(device->forget(event));
    cuda.work(first_stream, 500);
    const auto behind = device->record(first).value();
    EXPECT_EQ(behind, event) << "events are used again";
    EXPECT_FALSE(device->is_done(behind).value());
    ASSERT_TRUE(device->wait(second, behind));
    const auto later = device->record(second).value();
    EXPECT_FALSE(device->is_done(later).value());
    cuda.advance(600);
    EXPECT_TRUE(device->is_done(behind).value());
    EXPECT_TRUE(device->is_done(later).value());
    EXPECT_TRUE(device->synchronize(later));
  });
}

TEST_F(CudaUpstreamTest, ADestroyedStreamsMemoryIsNotLost) {
  run([](const Library& cuda) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {.limit = 64_MiB}).value();
    cuda.start();
    const cuda::Stream stream = cuda.stream();
    const auto address = pool->allocate(60_MiB, id_of(stream)).value();
    cuda.work(stream, 1000);
    ASSERT_TRUE(pool->deallocate(address, id_of(stream)));
    ASSERT_EQ(cuda.cuStreamDestroy_v2(stream), cuda::kSuccess);
    const auto again = pool->allocate(60_MiB, {});
    EXPECT_TRUE(again) << again.error().message;
  });
}

TEST_F(CudaUpstreamTest, ServesThreadsWithAnyOrNoContext) {
  use("cuda_context_memory: 0MiB\ngpus: [{model: Tesla T4, count: 2}]\n");
  run([](const Library& cuda) {
    const auto device = open_device(1);
    EXPECT_EQ(device->device().value, 1U);
    cuda.start(0);
    const cuda::Context before = cuda.start(0);
    EXPECT_TRUE(device->memory());
    cuda::Context after = nullptr;
    EXPECT_EQ(cuda.cuCtxGetCurrent(&after), cuda::kSuccess);
    EXPECT_EQ(before, after);
    std::jthread([&] {
      std::array<PageHandle, 3> pages{};
      EXPECT_TRUE(device->create(pages));
      cuda::Context current = nullptr;
      EXPECT_EQ(cuda.cuCtxGetCurrent(&current), cuda::kSuccess);
      EXPECT_EQ(current, nullptr);
    }).join();
    EXPECT_EQ(cuda.free_memory(), (15360 - 272) * cuda::kMiB) << "device 0 has lost nothing";
    EXPECT_EQ(device->memory().value().free, Bytes((15360 - 272 - 6) * cuda::kMiB));
    EXPECT_FALSE(device->record(id_of(cuda.stream()))) << "a stream of device 0";
    EXPECT_EQ(device->record({cuda::kStreamPerThread}).error().code, ErrorCode::invalid_argument);
    const auto pool = Pool::create(*device, {}).value();
    EXPECT_EQ(pool->allocate(4_KiB, {cuda::kStreamPerThread}).error().code, ErrorCode::invalid_argument);
  });
}

TEST_F(CudaUpstreamTest, FindsADeviceByItsUuid) {
  run([](const Library&) {
    const Uuid uuid = open_device(1)->uuid();
    CudaOptions options = cuda_options();
    options.uuid = uuid;
    EXPECT_EQ(CudaUpstream::open(options).value()->device().value, 1U);
    options.uuid = Uuid("GPU-00000000-0000-0000-0000-000000000000");
    const auto refused = CudaUpstream::open(options);
    EXPECT_EQ(refused.error().code, ErrorCode::not_found);
    EXPECT_THAT(refused.error().message, HasSubstr("CUDA has no device GPU-0000"));
  });
}

TEST_F(CudaUpstreamTest, SaysWhyItCannotBeOpened) {
  run([](const Library&) {
    CudaOptions options = cuda_options();
    options.library = "/nowhere/libcuda.so.1";
    EXPECT_EQ(CudaUpstream::open(options).error().code, ErrorCode::not_found);
    EXPECT_THAT(CudaUpstream::open(options).error().message, HasSubstr("/nowhere/libcuda.so.1"));
    EXPECT_THAT(CudaUpstream::open(options).error().hint, HasSubstr("install the NVIDIA driver"));
    EXPECT_EQ(CudaUpstream::open(cuda_options(2)).error().message, "CUDA has no device 2: it sees 2");
    options.library = "libc.so.6";
    EXPECT_EQ(CudaUpstream::open(options).error().code, ErrorCode::unavailable);
    options = cuda_options();
    options.context = CudaContext::current;
    EXPECT_THAT(CudaUpstream::open(options).error().hint, HasSubstr("make a context current"));
  });
  run(
      [](const Library&) {
        const auto refused = CudaUpstream::open(cuda_options(0, 418));
        EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
        EXPECT_THAT(refused.error().message, HasSubstr("older than CUDA 10.2"));
      },
      418);
}

TEST_F(CudaUpstreamTest, UsesTheCurrentContextWhereToldTo) {
  run([](const Library& cuda) {
    EXPECT_EQ(cuda.cuInit(0), cuda::kSuccess);
    cuda::Context own = nullptr;
    ASSERT_EQ(cuda.cuCtxCreate_v2(&own, 0, 0), cuda::kSuccess);
    CudaOptions options = cuda_options();
    options.context = CudaContext::current;
    const auto device = CudaUpstream::open(options).value();
    const auto pool = Pool::create(*device, {}).value();
    EXPECT_TRUE(pool->allocate(1_MiB, {}));
    unsigned flags = 0;
    int active = 1;
    EXPECT_EQ(cuda.cuDevicePrimaryCtxGetState(0, &flags, &active), cuda::kSuccess);
    EXPECT_EQ(active, 0) << "no primary context was made";
    options.device = CudaOrdinal{1};
    EXPECT_EQ(CudaUpstream::open(options).error().code, ErrorCode::invalid_argument);
  });
}

TEST_F(CudaUpstreamTest, ExportsPagesOnlyIfToldBefore) {
  run([](const Library& cuda) {
    CudaOptions options = cuda_options();
    options.exportable = true;
    const auto device = CudaUpstream::open(options).value();
    std::array<PageHandle, 1> pages{};
    ASSERT_TRUE(device->create(pages));
    const auto fd = device->export_page(pages[0]);
    ASSERT_TRUE(fd) << fd.error().message;
    cuda::AllocationHandle imported = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): how CUDA takes descriptors
    void* const shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd->get()));
    EXPECT_EQ(cuda.cuMemImportFromShareableHandle(&imported, shareable, cuda::kHandlePosixFd), cuda::kSuccess);
    EXPECT_EQ(open_device()->export_page(pages[0]).error().code, ErrorCode::invalid_argument);
  });
}

TEST_F(CudaUpstreamTest, CopiesInStreamOrder) {
  run([](const Library&) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {}).value();
    const auto from = pool->allocate(1_MiB, {}).value();
    const auto to = pool->allocate(1_MiB, {}).value();
    bytes_at(from)[12345] = 9;
    ASSERT_TRUE(device->copy(to, from, 1_MiB, {}));
    EXPECT_EQ(bytes_at(to)[12345], 9);
  });
}

}  // namespace
}  // namespace gpuwarden::memory
