// SPDX-License-Identifier: Apache-2.0
// CUDA is asked about without being started, on the simulated driver.
#include "gpuwarden/pools/started_cuda.hpp"

#include "sim_cuda/program.hpp"

namespace gpuwarden::pools {
namespace {

class StartedCuda : public cuda::Programs {};

TEST_F(StartedCuda, TellsTheDevicesOnceAProgramHasStartedIt) {
  run([&](const cuda::Library& library) {
    const auto path = cuda::library_of(580);
    EXPECT_FALSE(started_cuda_devices(path)) << "loaded, not started";
    EXPECT_EQ(library.cuInit(0), cuda::kSuccess);
    const auto devices = started_cuda_devices(path);
    ASSERT_TRUE(devices);
    int count = 0;
    EXPECT_EQ(library.cuDeviceGetCount(&count), cuda::kSuccess);
    ASSERT_EQ(devices->size(), static_cast<std::size_t>(count));
    EXPECT_TRUE(devices->front().value.starts_with("GPU-")) << devices->front().value;
  });
}

TEST_F(StartedCuda, IsNotLoadedByBeingAskedAbout) {
  EXPECT_FALSE(started_cuda_devices("/nowhere/libcuda.so.1"));
  EXPECT_FALSE(started_cuda_devices(cuda::library_of(550)));
  EXPECT_EQ(::dlopen(cuda::library_of(550).c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace gpuwarden::pools
