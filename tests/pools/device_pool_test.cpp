// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/device_pool.hpp"

namespace gpuwarden::pools {
namespace {

using ::testing::HasSubstr;

TEST(DevicePool, NamesTheStrategiesThatThereAre) {
  const auto refused = DevicePool::open({.cuda = {}, .strategy = "reckless\n"});
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().hint, HasSubstr("balanced"));
}

TEST(DevicePool, SaysThatThereIsNoDriver) {
  DevicePoolOptions options;
  options.cuda.library = "/nowhere/libcuda.so.1";
  EXPECT_EQ(DevicePool::open(options).error().code, ErrorCode::not_found);
}

TEST(WhoHolds, SaysWhereNvmlDoesNotTell) {
  EXPECT_EQ(who_holds(Uuid("GPU-1"), "/nowhere/libnvidia-ml.so.1"), "NVML does not say who else holds memory of it");
  EXPECT_EQ(who_holds(Uuid(), "libc.so.6"), "NVML does not say who else holds memory of it");
}

}  // namespace
}  // namespace gpuwarden::pools
