// SPDX-License-Identifier: Apache-2.0
// Streams, events and pools on the timeline; time stands still unless somebody waits or says so.
#include <thread>

#include "sim_cuda/program.hpp"

namespace gpuwarden::cuda {
namespace {

class StreamTest : public Programs {
 protected:
  /// A program on a manual clock.
  static void run_timed(const std::function<void(const Library&)>& body) {
    run([&](const Library& cuda) {
      cuda.start();
      cuda.stop_clock();
      body(cuda);
    });
  }
  static float elapsed(const Library& cuda, Event begin, Event end) {
    float milliseconds = -1;
    EXPECT_EQ(cuda.cuEventElapsedTime(&milliseconds, begin, end), kSuccess);
    return milliseconds;
  }
};

TEST_F(StreamTest, WorkTakesItsTime) {
  run_timed([](const Library& cuda) {
    Stream stream = cuda.stream();
    EXPECT_EQ(cuda.cuStreamQuery(stream), kSuccess);
    cuda.work(stream, 100);
    EXPECT_EQ(cuda.cuStreamQuery(stream), kNotReady);
    cuda.advance(99);
    EXPECT_EQ(cuda.cuStreamQuery(stream), kNotReady);
    cuda.advance(1);
    EXPECT_EQ(cuda.cuStreamQuery(stream), kSuccess);
  });
}

TEST_F(StreamTest, EventsMeasureWhatLiesBetweenThem) {
  run_timed([](const Library& cuda) {
    Stream stream = cuda.stream();
    Event begin = cuda.event();
    Event end = cuda.event();
    EXPECT_EQ(cuda.cuEventQuery(begin), kSuccess) << "never recorded";
    float unused = 0;
    EXPECT_EQ(cuda.cuEventElapsedTime(&unused, begin, end), kInvalidHandle);
    EXPECT_EQ(cuda.cuEventRecord(begin, stream), kSuccess);
    cuda.work(stream, 2500);
    EXPECT_EQ(cuda.cuEventRecord(end, stream), kSuccess);
    EXPECT_EQ(cuda.cuEventQuery(begin), kSuccess);
    EXPECT_EQ(cuda.cuEventQuery(end), kNotReady);
    EXPECT_EQ(cuda.cuEventElapsedTime(&unused, begin, end), kNotReady);
    EXPECT_EQ(cuda.cuEventSynchronize(end), kSuccess);
    EXPECT_FLOAT_EQ(elapsed(cuda, begin, end), 2.5F);
    Event untimed = cuda.event(kEventDisableTiming);
    EXPECT_EQ(cuda.cuEventRecord(untimed, stream), kSuccess);
    EXPECT_EQ(cuda.cuEventElapsedTime(&unused, begin, untimed), kInvalidHandle);
    EXPECT_EQ(cuda.cuEventDestroy_v2(untimed), kSuccess);
    EXPECT_EQ(cuda.cuEventQuery(untimed), kInvalidHandle);
  });
}

TEST_F(StreamTest, AStreamWaitsForAnEventOfAnother) {
  run_timed([](const Library& cuda) {
    Stream first = cuda.stream(kStreamNonBlocking);
    Stream second = cuda.stream(kStreamNonBlocking);
    Event done = cuda.event();
    cuda.work(first, 100);
    EXPECT_EQ(cuda.cuStreamQuery(second), kSuccess) << "independent until told";
    EXPECT_EQ(cuda.cuEventRecord(done, first), kSuccess);
    EXPECT_EQ(cuda.cuStreamWaitEvent(second, done, 0), kSuccess);
    cuda.work(second, 50);
    cuda.advance(120);
    EXPECT_EQ(cuda.cuStreamQuery(first), kSuccess);
    EXPECT_EQ(cuda.cuStreamQuery(second), kNotReady);
    cuda.advance(30);
    EXPECT_EQ(cuda.cuStreamQuery(second), kSuccess);
  });
}

TEST_F(StreamTest, TheLegacyStreamStandsBetweenBlockingOnes) {
  run_timed([](const Library& cuda) {
    Stream blocking = cuda.stream();
    Stream free = cuda.stream(kStreamNonBlocking);
    cuda.work(blocking, 100);
    cuda.work(nullptr, 10);
    cuda.work(free, 1);
    cuda.work(blocking, 5);
    cuda.advance(1);
    EXPECT_EQ(cuda.cuStreamQuery(free), kSuccess);
    cuda.advance(108);
    EXPECT_EQ(cuda.cuStreamQuery(nullptr), kNotReady) << "after the first work of the blocking one";
    cuda.advance(5);
    EXPECT_EQ(cuda.cuStreamQuery(blocking), kNotReady);
    cuda.advance(1);
    EXPECT_EQ(cuda.cuStreamQuery(blocking), kSuccess);
  });
}

TEST_F(StreamTest, ThePerThreadStreamIsEachThreadsOwn) {
  run_timed([](const Library& cuda) {
    Context context = nullptr;
    EXPECT_EQ(cuda.cuCtxGetCurrent(&context), kSuccess);
    const auto query = cuda.find<Result (*)(Stream)>("cuStreamQuery_ptsz");
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto per_thread = reinterpret_cast<Stream>(kStreamPerThread);
    cuda.work(per_thread, 100);
    EXPECT_EQ(query(nullptr), kNotReady) << "null means it here";
    std::jthread([&] {
      EXPECT_EQ(cuda.cuCtxSetCurrent(context), kSuccess);
      EXPECT_EQ(query(nullptr), kSuccess) << "another thread, another stream";
    }).join();
    EXPECT_EQ(cuda.cuStreamSynchronize(per_thread), kSuccess);
    EXPECT_EQ(query(nullptr), kSuccess);
  });
}

TEST_F(StreamTest, SynchronisingTheContextWaitsForAll) {
  run_timed([](const Library& cuda) {
    Stream first = cuda.stream();
    Stream second = cuda.stream(kStreamNonBlocking);
    Event end = cuda.event();
    cuda.work(first, 10);
    cuda.work(second, 500);
    EXPECT_EQ(cuda.cuEventRecord(end, second), kSuccess);
    EXPECT_EQ(cuda.cuStreamDestroy_v2(second), kSuccess) << "its work goes on";
    EXPECT_EQ(cuda.cuStreamQuery(second), kInvalidHandle);
    EXPECT_EQ(cuda.cuEventQuery(end), kNotReady);
    EXPECT_EQ(cuda.cuCtxSynchronize(), kSuccess);
    EXPECT_EQ(cuda.cuEventQuery(end), kSuccess);
  });
}

TEST_F(StreamTest, FreeingAtOnceWaitsForTheDevice) {
  run_timed([](const Library& cuda) {
    const DevicePointer pointer = cuda.allocate(kMiB);
    Stream stream = cuda.stream();
    cuda.work(stream, 100);
    EXPECT_EQ(cuda.cuMemFree_v2(pointer), kSuccess);
    EXPECT_EQ(cuda.cuStreamQuery(stream), kSuccess);
  });
}

TEST_F(StreamTest, CopiesTakeTheTimeOfTheProductsBandwidth) {
  use("gpus: [{model: NVIDIA H100 80GB HBM3}]\n");
  run_timed([](const Library& cuda) {
    const DevicePointer pointer = cuda.allocate(256 * kMiB);
    void* host = nullptr;
    ASSERT_EQ(cuda.cuMemAllocHost_v2(&host, 52 * kMiB), kSuccess);
    Event begin = cuda.event();
    Event end = cuda.event();
    cuda.call({{"op", "cuda_latency"}, {"factor", 1}});
    EXPECT_EQ(cuda.cuEventRecord(begin, nullptr), kSuccess);
    EXPECT_EQ(cuda.cuMemcpyHtoDAsync_v2(pointer, host, 52 * kMiB, nullptr), kSuccess);
    EXPECT_EQ(cuda.cuEventRecord(end, nullptr), kSuccess);
    EXPECT_EQ(cuda.cuEventQuery(end), kNotReady);
    EXPECT_EQ(cuda.cuEventSynchronize(end), kSuccess);
    EXPECT_NEAR(elapsed(cuda, begin, end), 1.05, 0.02) << "52 GB/s over PCIe 5";
  });
}

TEST_F(StreamTest, CallsCostTimeWhereLatenciesAreOn) {
  run_timed([](const Library& cuda) {
    const auto now = [&] { return cuda.call({{"op", "cuda_clock"}})["now_microseconds"].get<double>(); };
    const double before = now();
    const AllocationHandle handle = cuda.create(kPage);
    EXPECT_EQ(now(), before) << "switched off";
    cuda.call({{"op", "cuda_latency"}, {"factor", 1}});
    cuda.create(kPage);
    EXPECT_NEAR(now() - before, 29, 0.1);
    cuda.call({{"op", "cuda_latency"}, {"factor", 10}});
    cuda.cuMemRelease(handle);
    EXPECT_NEAR(now() - before, 29 + 230, 0.1);
    EXPECT_EQ(cuda.create(std::size_t{1} << 50U), 0U);
    EXPECT_NEAR(now() - before, 29 + 230 + 280, 0.1) << "what is refused costs a call, and nothing for its size";
  });
}

class PoolTest : public StreamTest {
 protected:
  static DevicePointer take(const Library& cuda, std::size_t bytes, Stream stream) {
    DevicePointer pointer = 0;
    return cuda.cuMemAllocAsync(&pointer, bytes, stream) == kSuccess ? pointer : 0;
  }
  static MemoryPool pool(const Library& cuda) {
    MemoryPool made = nullptr;
    EXPECT_EQ(cuda.cuDeviceGetMemPool(&made, 0), kSuccess);
    return made;
  }
  static void set_rule(const Library& cuda, int which, int value) {
    EXPECT_EQ(cuda.cuMemPoolSetAttribute(pool(cuda), which, &value), kSuccess);
  }
  static std::uint64_t figure(const Library& cuda, int which) {
    std::uint64_t value = 0;
    EXPECT_EQ(cuda.cuMemPoolGetAttribute(pool(cuda), which, &value), kSuccess);
    return value;
  }
};

TEST_F(PoolTest, AFreedBlockIsTheStreamsAtOnceAndAnothersWhenTheWorkIsOver) {
  run_timed([](const Library& cuda) {
    set_rule(cuda, kPoolAllowInternalDependencies, 0);
    Stream own = cuda.stream(kStreamNonBlocking);
    Stream other = cuda.stream(kStreamNonBlocking);
    const DevicePointer whole = take(cuda, 32 * kMiB, own);
    cuda.work(own, 100);
    EXPECT_EQ(cuda.cuMemFreeAsync(whole, own), kSuccess);
    const DevicePointer elsewhere = take(cuda, 32 * kMiB, other);
    EXPECT_NE(elsewhere, whole) << "the first stream may still use it";
    EXPECT_EQ(take(cuda, 32 * kMiB, own), whole) << "in its own order it is free";
    EXPECT_EQ(cuda.cuMemFreeAsync(whole, own), kSuccess);
    cuda.advance(100);
    EXPECT_EQ(take(cuda, 32 * kMiB, other), whole) << "the work is over";
  });
}

TEST_F(PoolTest, AStreamThatWaitedMayTakeTheBlockEarlier) {
  run_timed([](const Library& cuda) {
    set_rule(cuda, kPoolAllowInternalDependencies, 0);
    Stream own = cuda.stream(kStreamNonBlocking);
    Stream other = cuda.stream(kStreamNonBlocking);
    Event freed = cuda.event();
    const DevicePointer whole = take(cuda, 32 * kMiB, own);
    cuda.work(own, 100);
    EXPECT_EQ(cuda.cuMemFreeAsync(whole, own), kSuccess);
    EXPECT_EQ(cuda.cuEventRecord(freed, own), kSuccess);
    EXPECT_EQ(cuda.cuStreamWaitEvent(other, freed, 0), kSuccess);
    EXPECT_EQ(take(cuda, 32 * kMiB, other), whole);
    EXPECT_EQ(cuda.cuStreamQuery(own), kNotReady) << "and no time has passed";
  });
}

TEST_F(PoolTest, MayMakeAStreamWait) {
  run_timed([](const Library& cuda) {
    Stream own = cuda.stream(kStreamNonBlocking);
    Stream other = cuda.stream(kStreamNonBlocking);
    const DevicePointer whole = take(cuda, 32 * kMiB, own);
    cuda.work(own, 100);
    EXPECT_EQ(cuda.cuMemFreeAsync(whole, own), kSuccess);
    EXPECT_EQ(take(cuda, 32 * kMiB, other), whole);
    EXPECT_EQ(cuda.cuStreamQuery(other), kNotReady) << "it waits for the first stream now";
    cuda.advance(100);
    EXPECT_EQ(cuda.cuStreamQuery(other), kSuccess);
  });
}

TEST_F(PoolTest, GivesBackAboveItsThresholdWhenSynchronised) {
  run_timed([](const Library& cuda) {
    const std::uint64_t before = cuda.free_memory();
    Stream stream = cuda.stream();
    const DevicePointer small = take(cuda, 1000, stream);
    const DevicePointer large = take(cuda, 100 * kMiB, stream);
    EXPECT_EQ(figure(cuda, kPoolReservedCurrent), 132 * kMiB) << "32 MiB at least, 2 MiB beyond that";
    EXPECT_EQ(figure(cuda, kPoolUsedCurrent), 1024 + 100 * kMiB);
    EXPECT_EQ(before - cuda.free_memory(), 132 * kMiB);
    EXPECT_EQ(cuda.cuMemFreeAsync(large, stream), kSuccess);
    EXPECT_EQ(before - cuda.free_memory(), 132 * kMiB) << "cached until somebody synchronises";
    EXPECT_EQ(cuda.cuStreamSynchronize(stream), kSuccess);
    EXPECT_EQ(before - cuda.free_memory(), 32 * kMiB);
    std::uint64_t keep = ~std::uint64_t{0};
    EXPECT_EQ(cuda.cuMemPoolSetAttribute(pool(cuda), kPoolReleaseThreshold, &keep), kSuccess);
    EXPECT_EQ(cuda.cuMemFreeAsync(small, stream), kSuccess);
    EXPECT_EQ(cuda.cuStreamSynchronize(stream), kSuccess);
    EXPECT_EQ(before - cuda.free_memory(), 32 * kMiB) << "kept";
    EXPECT_EQ(cuda.cuMemPoolTrimTo(pool(cuda), 0), kSuccess);
    EXPECT_EQ(cuda.free_memory(), before);
    EXPECT_EQ(figure(cuda, kPoolReservedHigh), 132 * kMiB);
    std::uint64_t zero = 0;
    EXPECT_EQ(cuda.cuMemPoolSetAttribute(pool(cuda), kPoolReservedHigh, &zero), kSuccess);
    EXPECT_EQ(figure(cuda, kPoolReservedHigh), 0U);
  });
}

TEST_F(PoolTest, OfTheUsersOwnHasItsOwnLimits) {
  run_timed([](const Library& cuda) {
    const PoolProperties properties{.type = kAllocationPinned, .location = {kLocationDevice, 0}, .max_size = 64 * kMiB};
    MemoryPool own = nullptr;
    ASSERT_EQ(cuda.cuMemPoolCreate(&own, &properties), kSuccess);
    DevicePointer pointer = 0;
    EXPECT_EQ(cuda.cuMemAllocFromPoolAsync(&pointer, 65 * kMiB, own, nullptr), kOutOfMemory);
    EXPECT_EQ(cuda.cuMemAllocFromPoolAsync(&pointer, 60 * kMiB, own, nullptr), kSuccess);
    MemoryPool seen = nullptr;
    EXPECT_EQ(cuda.cuPointerGetAttribute(&seen, kPointerPool, pointer), kSuccess);
    EXPECT_EQ(seen, own);
    EXPECT_EQ(cuda.cuDeviceSetMemPool(0, own), kSuccess);
    EXPECT_EQ(cuda.cuMemPoolDestroy(own), kSuccess);
    EXPECT_NE(pool(cuda), own) << "the default pool is back in its place";
    EXPECT_EQ(cuda.cuMemcpyDtoD_v2(pointer, pointer + kMiB, 100), kSuccess) << "a block keeps it alive";
    EXPECT_EQ(cuda.cuMemFree_v2(pointer), kSuccess) << "at once, for memory of a pool";
    EXPECT_EQ(cuda.cuMemFreeAsync(pointer, nullptr), kInvalidValue);
    EXPECT_EQ(cuda.cuMemPoolDestroy(pool(cuda)), kInvalidValue) << "the default pool stays";
  });
}

}  // namespace
}  // namespace gpuwarden::cuda
