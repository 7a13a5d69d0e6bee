// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/buffer.hpp"

#include <cstring>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/two_streams.hpp"

namespace gpuwarden::memory {
namespace {

unsigned char* bytes_at(DeviceAddress address) {
  return reinterpret_cast<unsigned char*>(address.value);  // NOLINT(performance-no-int-to-ptr)
}

/// A pool on memory that can be written, and a copy that counts.
struct DeviceBufferTest : ::testing::Test {
  std::unique_ptr<MemfdUpstream> device = MemfdUpstream::open(128_MiB).value();
  std::unique_ptr<Pool> pool = Pool::create(*device, {}).value();
  unsigned copies = 0;
  bool copy_fails = false;

  auto copy() {
    return [this](DeviceAddress to, DeviceAddress from, Bytes size, StreamId) -> Result<void> {
      if (copy_fails) return fail(ErrorCode::failed, "no copy");
      ++copies;
      std::memcpy(bytes_at(to), bytes_at(from), size.value);
      return {};
    };
  }
  DeviceBuffer<Pool> make(Bytes size) { return DeviceBuffer<Pool>::make(*pool, size, kStream).value(); }
};

TEST_F(DeviceBufferTest, GivesBackWhatItHolds) {
  {
    const auto buffer = make(5_MiB);
    EXPECT_TRUE(buffer);
    EXPECT_EQ(buffer.size(), 5_MiB);
    EXPECT_EQ(buffer.stream(), kStream);
    EXPECT_EQ(pool->status().live_blocks, 1U);
  }
  EXPECT_EQ(pool->status().live_blocks, 0U);
  EXPECT_FALSE(make(0_B));
  EXPECT_FALSE(DeviceBuffer<Pool>());
  EXPECT_EQ(DeviceBuffer<Pool>::make(*pool, 200_MiB, kStream).error().code, ErrorCode::unsatisfied);
}

TEST_F(DeviceBufferTest, MovesAndDoesNotGiveBackTwice) {
  auto first = make(1_MiB);
  const DeviceAddress address = first.address();
  DeviceBuffer<Pool> second(std::move(first));
  EXPECT_EQ(second.address(), address);
  auto third = make(2_MiB);
  third = std::move(second);
  EXPECT_EQ(third.address(), address);
  EXPECT_EQ(third.size(), 1_MiB);
  EXPECT_EQ(pool->status().live_blocks, 1U);
  EXPECT_TRUE(third.free());
  EXPECT_TRUE(third.free());
  EXPECT_EQ(pool->status().live_blocks, 0U);
  EXPECT_TRUE(pool->check());
}

TEST_F(DeviceBufferTest, KeepsItsContentsWhenItGrows) {
  auto buffer = make(1_MiB);
  std::memset(bytes_at(buffer.address()), 42, (1_MiB).value);
  ASSERT_TRUE(buffer.resize(9_MiB, copy()));
  EXPECT_EQ(bytes_at(buffer.address())[(1_MiB).value - 1], 42);
  EXPECT_EQ(copies, 1U);
  const DeviceAddress address = buffer.address();
  ASSERT_TRUE(buffer.resize(2_MiB, copy()));
  ASSERT_TRUE(buffer.resize(9_MiB, copy()));
  EXPECT_EQ(buffer.address(), address) << "within the capacity nothing moves";
  EXPECT_EQ(copies, 1U);
  ASSERT_TRUE(buffer.resize(1_MiB, copy()));
  ASSERT_TRUE(buffer.shrink_to_fit(copy()));
  EXPECT_EQ(buffer.capacity(), 1_MiB);
  EXPECT_EQ(bytes_at(buffer.address())[0], 42);
  EXPECT_EQ(pool->status().live, 1_MiB);
}

TEST_F(DeviceBufferTest, IsAsBeforeWhenItCannotGrow) {
  auto buffer = make(1_MiB);
  const DeviceAddress address = buffer.address();
  EXPECT_EQ(buffer.resize(200_MiB, copy()).error().code, ErrorCode::unsatisfied);
  copy_fails = true;
  EXPECT_FALSE(buffer.resize(2_MiB, copy()));
  EXPECT_EQ(buffer.address(), address);
  EXPECT_EQ(buffer.size(), 1_MiB);
  EXPECT_EQ(pool->status().live_blocks, 1U);
  EXPECT_FALSE(DeviceBuffer<Pool>().resize(1_MiB, copy()));
}

TEST_F(DeviceBufferTest, GivesBackOnTheStreamItWasHandedTo) {
  auto buffer = make(60_MiB);
  buffer.set_stream(StreamId{2});
  ASSERT_TRUE(buffer.free());
  EXPECT_EQ(pool->status().cached, 60_MiB) << "kept until the other stream is done";
}

}  // namespace
}  // namespace gpuwarden::memory
