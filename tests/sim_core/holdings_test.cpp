// SPDX-License-Identifier: Apache-2.0
// The accounts of GPU memory: pure functions over a state.
#include "sim/core/holdings.hpp"

#include <unistd.h>

#include "sim/core/evolve.hpp"
#include "sim/core/process.hpp"

namespace gpuwarden::sim {
namespace {

using Taken = Fleet::Taken;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kAll = (15360 - 272) * kMiB;

class Holdings : public ::testing::Test {
 protected:
  Holdings() : spec_(*parse_fleet("gpus: [{model: Tesla T4, count: 2}]\n", "test", "test")) { begin(*body_, spec_, 0); }

  /// A row of this process, which lives, or of one that never did.
  static Holding row(std::uint64_t bytes, std::uint64_t object = 0, std::uint32_t gpu = 0) {
    return {::getpid(), gpu, process_start_time(::getpid()), bytes, object, kNoInstance, 0};
  }
  static Holding of_the_dead(std::uint64_t bytes, std::uint64_t object = 0) {
    Holding dead = row(bytes, object);
    dead.start_time += 1;
    return dead;
  }
  std::uint64_t used(std::uint32_t gpu = 0) const { return used_bytes(*body_, spec_, {gpu, kNoInstance}); }

  FleetSpec spec_;
  std::unique_ptr<Body> body_ = std::make_unique<Body>();
};

TEST_F(Holdings, AreTakenWhileThereIsRoom) {
  EXPECT_EQ(capacity(*body_, spec_, {0, kNoInstance}), kAll);
  EXPECT_EQ(take(*body_, spec_, row(kAll - kMiB)), Taken::done);
  EXPECT_EQ(take(*body_, spec_, row(2 * kMiB)), Taken::out_of_memory);
  EXPECT_EQ(take(*body_, spec_, row(kMiB)), Taken::done);
  EXPECT_EQ(take(*body_, spec_, row(1)), Taken::out_of_memory);
  EXPECT_EQ(take(*body_, spec_, row(~std::uint64_t{0})), Taken::out_of_memory);
  EXPECT_EQ(take(*body_, spec_, row(kMiB, 0, 1)), Taken::done) << "another GPU";
  give(*body_, row(kAll));
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(used(1), kMiB);
  EXPECT_EQ(body_->holding_count, 1U) << "an empty account is closed";
}

TEST_F(Holdings, OfTheDeadAreDroppedBeforeAnybodyIsRefused) {
  EXPECT_EQ(take(*body_, spec_, of_the_dead(kAll)), Taken::done);
  EXPECT_EQ(take(*body_, spec_, row(kAll)), Taken::done);
  EXPECT_EQ(used(), kAll);
}

TEST_F(Holdings, OfASharedObjectCountOnce) {
  EXPECT_EQ(take(*body_, spec_, of_the_dead(8 * kMiB)), Taken::done);
  EXPECT_EQ(share(*body_, of_the_dead(6 * kMiB, 99)), Taken::done);
  EXPECT_EQ(used(), 8 * kMiB) << "sharing takes nothing more";
  EXPECT_EQ(take(*body_, spec_, row(6 * kMiB, 99)), Taken::done);
  EXPECT_EQ(used(), 8 * kMiB);
  EXPECT_TRUE(drop_dead(*body_));
  EXPECT_EQ(used(), 6 * kMiB) << "whoever is left holds it";
  give(*body_, row(6 * kMiB, 99));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Holdings, OfAContextStayWhileItLives) {
  Holding context = row(0);
  context.contexts = 1;
  EXPECT_EQ(take(*body_, spec_, context), Taken::done);
  EXPECT_EQ(body_->holding_count, 1U) << "NVML lists a process with a context that holds nothing";
  give(*body_, context);
  EXPECT_EQ(body_->holding_count, 0U);
}

TEST_F(Holdings, HaveAnEnd) {
  for (std::size_t i = 0; i < kMaxHoldings; ++i) EXPECT_EQ(take(*body_, spec_, row(1, i + 1)), Taken::done);
  EXPECT_EQ(take(*body_, spec_, row(1, 5000)), Taken::table_full);
  EXPECT_EQ(share(*body_, row(1, 5001)), Taken::table_full);
}

TEST(FleetFile, MaySetTheCudaDriversLatencyAndContexts) {
  const auto spec = parse_fleet("cuda_latency: 0\ncuda_context_memory: 64MiB\ngpus: [{model: Tesla T4}]\n", "t", "t");
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->cuda_latency, 0);
  EXPECT_EQ(spec->context_mib, 64);
  EXPECT_FALSE(parse_fleet("cuda_latency: -1\ngpus: []\n", "t", "t").has_value());
  EXPECT_TRUE(parse_fault("cuda_error=700").has_value());
  EXPECT_FALSE(parse_fault("cuda_corrupt").has_value()) << "which error?";
}

}  // namespace
}  // namespace gpuwarden::sim
