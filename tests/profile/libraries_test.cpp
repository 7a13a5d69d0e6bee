// SPDX-License-Identifier: Apache-2.0
// The libraries of others: NVTX's, and the CUDA driver's events on the simulated driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "gpuwarden/profile/profiler.hpp"
#include "sim_cuda/program.hpp"

namespace gpuwarden::profile {
namespace {

using namespace std::chrono_literals;

TEST(Nvtx, RangesGoToItsLibrary) {
  const auto ranges = open_nvtx(GPUWARDEN_STAND_IN_NVTX);
  ASSERT_TRUE(ranges.has_value()) << ranges.error().message;
  Profiler profiler({.ranges = *ranges});
  {
    const Scope scope("range", profiler);
  }
  void* const library = ::dlopen(GPUWARDEN_STAND_IN_NVTX, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto ended = reinterpret_cast<std::uint64_t (*)()>(::dlsym(library, "stand_in_nvtx_ended"));
  EXPECT_EQ(ended(), 1U);
}

TEST(Nvtx, OtherLibrariesAreRefused) {
  EXPECT_EQ(open_nvtx("/nowhere/libnvToolsExt.so.1").error().code, ErrorCode::not_found);
  EXPECT_EQ(open_nvtx("libc.so.6").error().code, ErrorCode::unavailable);
}

TEST(CudaTimer, OtherLibrariesAreRefused) {
  EXPECT_EQ(open_cuda_timer("/nowhere/libcuda.so.1").error().code, ErrorCode::not_found);
  EXPECT_EQ(open_cuda_timer("libc.so.6").error().code, ErrorCode::unavailable);
}

class CudaTimerTest : public cuda::Programs {};

TEST_F(CudaTimerTest, TimesWhatAStreamDoes) {
  run([](const cuda::Library& cuda) {
    const auto timer = open_cuda_timer(cuda::library_of(580));
    ASSERT_TRUE(timer.has_value()) << timer.error().message;
    Profiler profiler({.device = *timer});
    {
      const Scope scope("before there is a context", profiler);
    }
    cuda.start();
    auto* const stream = cuda.stream();
    for (int i = 0; i < 3; ++i) {
      const Scope scope("kernel", profiler, reinterpret_cast<std::uintptr_t>(stream));
      cuda.work(stream, 2000);
    }
    for (const auto& operation : profiler.results()) {
      EXPECT_EQ(operation.device.has_value(), operation.name == "kernel");
      if (!operation.device) continue;
      EXPECT_EQ(operation.device->count, 3U);
      EXPECT_GE(operation.device->min, 1900us);
      EXPECT_GT(operation.device->min, operation.wall.min) << "the work is asynchronous";
    }
  });
}

TEST_F(CudaTimerTest, EventsAreUsedAgain) {
  run([](const cuda::Library& cuda) {
    const auto timer = open_cuda_timer(cuda::library_of(580)).value();
    cuda.start();
    for (int i = 0; i < 100; ++i) {
      const auto start = timer->mark(0);
      const auto end = timer->mark(0);
      ASSERT_NE(start, 0U);
      EXPECT_EQ(timer->elapsed(start, end, true).state, DeviceTimer::State::done);
      timer->release(start);
      timer->release(end);
    }
    EXPECT_EQ(cuda.call({{"op", "cuda_state"}})["events"], 2);
    EXPECT_EQ(timer->elapsed(77, 78, false).state, DeviceTimer::State::lost);
  });
}

}  // namespace
}  // namespace gpuwarden::profile
