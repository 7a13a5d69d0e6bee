// SPDX-License-Identifier: Apache-2.0
// The pool and the driver's own ways on this machine's first GPU.
#include <numeric>

#include "gpuwarden/memory/async_pool.hpp"
#include "gpuwarden/memory/cuda_upstream.hpp"
#include "gpuwarden/memory/host_resource.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "gpuwarden/pools/device_pool.hpp"
#include "memory/resource_battery.hpp"
#include "nvidia/cuda_library.hpp"

namespace gpuwarden::memory {
namespace {

/// The driver's functions, with the first GPU's primary context current; skipped where there is none.
class RealMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaUpstream::open({});
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
    driver_ = cuda::find_symbols(cuda::open_library("libcuda.so.1").value());
    cuda::Context context = nullptr;
    ASSERT_EQ(driver_.cuDevicePrimaryCtxRetain(&context, 0), cuda::kSuccess);
    ASSERT_EQ(driver_.cuCtxSetCurrent(context), cuda::kSuccess);
  }

  StreamId make_stream() const {
    cuda::Stream stream = nullptr;
    EXPECT_EQ(driver_.cuStreamCreate(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
    return {reinterpret_cast<std::uintptr_t>(stream)};
  }
  void write(DeviceAddress to, const std::vector<unsigned>& values) const {
    EXPECT_EQ(driver_.cuMemcpyHtoD_v2(to.value, values.data(), values.size() * sizeof(unsigned)), cuda::kSuccess);
  }
  std::vector<unsigned> read(DeviceAddress from, std::size_t count) const {
    std::vector<unsigned> values(count);
    EXPECT_EQ(driver_.cuMemcpyDtoH_v2(values.data(), from.value, count * sizeof(unsigned)), cuda::kSuccess);
    return values;
  }
  /// A request that fits, and one that cannot.
  BatterySizes sizes() const {
    const DeviceMemory memory = device_->memory().value();
    return {.fits = Bytes(memory.free.value / 4), .too_much = memory.total};
  }
  template <DeviceResource R>
  void expect_battery(R& resource) const {
    expect_it_gives_out_and_takes_back(resource, {});
    expect_it_passes_refusals_on(resource, {}, sizes());
    expect_it_serves_threads(resource, {StreamId{}, make_stream(), make_stream()});
  }

  std::unique_ptr<CudaUpstream> device_;
  cuda::Symbols driver_;
};

TEST_F(RealMemory, EveryResourcePassesTheBattery) {
  {
    const auto pool = Pool::create(*device_, {}).value();
    expect_battery(*pool);
    EXPECT_TRUE(pool->check());
  }
  expect_battery(*AsyncPoolResource::open({}).value());
  expect_battery(*DirectResource::open({}).value());
}

TEST_F(RealMemory, ContentsStayWhilePagesMove) {
  const auto pool = Pool::create(*device_, {.limit = 256_MiB}).value();
  std::vector<std::pair<DeviceAddress, unsigned>> live;
  std::vector<DeviceAddress> gaps;
  constexpr std::size_t kWords = (6_MiB).value / sizeof(unsigned);
  for (unsigned i = 0; i < 20; ++i) {
    live.emplace_back(pool->allocate(6_MiB, {}).value(), i);
    write(live.back().first, std::vector<unsigned>(kWords, i));
    gaps.push_back(pool->allocate(6_MiB, {}).value());
  }
  for (const DeviceAddress gap : gaps) ASSERT_TRUE(pool->deallocate(gap, {}));
  // Larger than any gap: their pages have to be moved together.
  const auto large = pool->allocate(110_MiB, {});
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_GT(pool->status().pages_moved, 0U);
  write(*large, std::vector<unsigned>((110_MiB).value / sizeof(unsigned), 99));
  for (const auto& [address, value] : live)
    EXPECT_EQ(read(address, kWords), std::vector<unsigned>(kWords, value)) << value;
  EXPECT_TRUE(pool->check());
}

TEST_F(RealMemory, BuffersCopyAndPinnedMemoryServes) {
  const auto pool = Pool::create(*device_, {}).value();
  const auto pinned = PinnedHostResource::open({}).value();
  HostPoolResource host(*pinned);
  std::pmr::vector<unsigned> values(1'000'000, &host);
  std::iota(values.begin(), values.end(), 0U);
  const Bytes size(values.size() * sizeof(unsigned));
  const auto from = pool->allocate(size, {}).value();
  const auto to = pool->allocate(size, {}).value();
  EXPECT_EQ(driver_.cuMemcpyHtoDAsync_v2(from.value, values.data(), size.value, nullptr), cuda::kSuccess);
  ASSERT_TRUE(device_->copy(to, from, size, {}));
  EXPECT_EQ(read(to, values.size()), std::vector<unsigned>(values.begin(), values.end()));
}

TEST_F(RealMemory, TheReportIsTrue) {
  const auto pool = pools::DevicePool::open({}).value();
  const auto refused = pool->pool().allocate(device_->memory().value().total, {});
  EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("out of memory"));
  EXPECT_TRUE(pool->pool().allocate(1_MiB, {}));
}

}  // namespace
}  // namespace gpuwarden::memory
