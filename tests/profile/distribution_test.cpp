// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/distribution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace gpuwarden::profile {
namespace {

using std::chrono::nanoseconds;

TEST(Distribution, IsZeroWithoutDurations) { EXPECT_EQ(Distribution().summary(), Durations()); }

TEST(Distribution, CountsExactlyAndTakesNegativesAsNothing) {
  Distribution all;
  for (const int value : {30, 10, -5, 20}) all.add(nanoseconds(value));
  EXPECT_EQ(all.summary(), (Durations{.count = 4,
                                      .total = nanoseconds(60),
                                      .min = nanoseconds(0),
                                      .mean = nanoseconds(15),
                                      .max = nanoseconds(30),
                                      .p95 = nanoseconds(30)}));
}

TEST(Distribution, ThePercentileIsWithinAThirtySecondOfTheTrueOne) {
  std::mt19937_64 random(7);
  for (const double spread : {0.1, 1.0, 3.0}) {
    std::lognormal_distribution<double> durations(12, spread);
    Distribution all;
    std::vector<double> values;
    for (int i = 0; i < 20'000; ++i) {
      const nanoseconds duration(static_cast<std::int64_t>(durations(random)));
      all.add(duration);
      values.push_back(static_cast<double>(duration.count()));
    }
    std::ranges::sort(values);
    const double exact = values[static_cast<std::size_t>(0.95 * 20'000) - 1];
    EXPECT_NEAR(static_cast<double>(all.summary().p95.count()), exact, exact / 32 + 1) << spread;
  }
}

TEST(Distribution, HoldsTheLongestDurations) {
  Distribution all;
  all.add(nanoseconds::max());
  EXPECT_EQ(all.summary().max, nanoseconds::max());
  EXPECT_EQ(all.summary().p95, nanoseconds::max());
}

}  // namespace
}  // namespace gpuwarden::profile
