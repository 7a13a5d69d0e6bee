// SPDX-License-Identifier: Apache-2.0
// What every DeviceResource has to do: one battery for the pool, for what stands around it, and for the CUDA driver's
// own ways.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

/// A request that the resource can meet, once at a time, and one that it never can.
struct BatterySizes {
  Bytes fits;
  Bytes too_much;
};

template <DeviceResource R>
void expect_it_gives_out_and_takes_back(R& resource, StreamId stream) {
  const auto first = resource.allocate(10_MiB, stream).value();
  const auto second = resource.allocate(1000_B, stream).value();
  EXPECT_NE(first, second);
  EXPECT_TRUE(second.value + 1000 <= first.value || first.value + (10_MiB).value <= second.value) << "they overlap";
  EXPECT_EQ(first.value % 256, 0U);
  EXPECT_EQ(second.value % 256, 0U);
  EXPECT_TRUE(resource.deallocate(first, 10_MiB, stream));
  EXPECT_TRUE(resource.deallocate(second, 1000_B, stream));
}

template <DeviceResource R>
void expect_it_passes_refusals_on(R& resource, StreamId stream, const BatterySizes& sizes) {
  EXPECT_EQ(resource.allocate(0_B, stream).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(resource.allocate(Bytes(~std::uint64_t{0}), stream));
  EXPECT_EQ(resource.allocate(sizes.too_much, stream).error().code, ErrorCode::unsatisfied);
  const auto address = resource.allocate(sizes.fits, stream).value();
  EXPECT_FALSE(resource.deallocate(address, 100_MiB, stream));
  EXPECT_TRUE(resource.deallocate(address, sizes.fits, stream));
  EXPECT_EQ(resource.deallocate(address, sizes.fits, stream).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(resource.deallocate({12345}, 1_B, stream));
  const auto again = resource.allocate(sizes.fits, stream);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(resource.deallocate(*again, sizes.fits, stream));
}

/// Each thread on the stream of its number.
template <DeviceResource R>
void expect_it_serves_threads(R& resource, const std::vector<StreamId>& streams, int rounds = 500) {
  const auto work = [&](unsigned number) {
    std::mt19937 random(number);
    for (int i = 0; i < rounds; ++i) {
      const Bytes size(1 + random() % 3'000'000);
      const auto address = resource.allocate(size, streams[number]);
      ASSERT_TRUE(address) << address.error().message;
      ASSERT_TRUE(resource.deallocate(*address, size, streams[number]));
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < streams.size(); ++i) threads.emplace_back(work, i);
}

}  // namespace gpuwarden::memory
