// SPDX-License-Identifier: Apache-2.0
#include "launch/straggler.hpp"

#include <gmock/gmock.h>

#include "support/fleet_builder.hpp"

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Stragglers : public ::testing::Test {
 protected:
  Stragglers() {
    for (facts::GpuRecord& record : snapshot_.gpus) {
      record.sample.utilization_gpu = 95_pct;
      record.sample.power = 600_W;
      record.sample.clock_sm = 1980_MHz;
      record.sample.pcie_width = Count(16);
      record.gpu.pcie_width_max = Count(16);
    }
    std::vector<Uuid> gpus;
    for (const facts::GpuRecord& record : snapshot_.gpus) gpus.push_back(record.gpu.uuid);
    watch_.emplace(gpus, 60s);
  }
  /// Reads for so long, once in five seconds.
  std::vector<Straggler> watch_for(std::chrono::seconds time) {
    std::vector<Straggler> found;
    for (const auto end = now_ + time; now_ < end; now_ += 5s) {
      for (Straggler& one : watch_->add(snapshot_, now_)) found.push_back(std::move(one));
    }
    return found;
  }
  facts::GpuSample& slow() { return snapshot_.gpus[2].sample; }

  facts::Snapshot snapshot_ = testing::fleet(4);
  std::optional<StragglerWatch> watch_;
  Clock::SteadyTime now_{1h};
};

TEST_F(Stragglers, EqualsHaveNone) { EXPECT_THAT(watch_for(10min), IsEmpty()); }

TEST_F(Stragglers, AGpuThatHeatHoldsBackIsToldOnceWithItsReason) {
  slow().clock_sm = 1200_MHz;
  slow().throttle_reasons = {facts::ThrottleReason::hw_thermal_slowdown};
  EXPECT_THAT(watch_for(40s), IsEmpty()) << "a minute is looked at";
  const auto found = watch_for(10min);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].sentence(),
            "GPU 2 is far behind the job's other GPUs (SM clock 1200 MHz, the others' median 1980 MHz, for 1 min 0 s): "
            "held back by heat (hw_thermal_slowdown)");
}

TEST_F(Stragglers, ClocksThatAreAlittleLowerAreNone) {
  slow().clock_sm = 1600_MHz;
  EXPECT_THAT(watch_for(5min), IsEmpty());
}

TEST_F(Stragglers, OneThatWorksLessAndDrawsLessIsTold) {
  slow().utilization_gpu = 20_pct;
  slow().pcie_width = Count(4);
  EXPECT_THAT(watch_for(5min), IsEmpty()) << "it draws as much as the others";
  slow().power = 150_W;
  const auto found = watch_for(5min);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, HasSubstr("utilization"));
  EXPECT_EQ(found[0].reason, "its PCIe link, 4 of 16 lanes");
}

TEST_F(Stragglers, IdlePeersAndUnknownFiguresTellNothing) {
  slow().clock_sm = 345_MHz;
  slow().utilization_gpu.reset();
  EXPECT_THAT(watch_for(5min), IsEmpty());
  slow().utilization_gpu = 0_pct;
  for (std::size_t i : {0, 1, 3}) snapshot_.gpus[i].sample.utilization_gpu = 3_pct;
  EXPECT_THAT(watch_for(5min), IsEmpty());
}

TEST_F(Stragglers, ShortSlownessIsNone) {
  slow().clock_sm = 1200_MHz;
  EXPECT_THAT(watch_for(10s), IsEmpty());
  slow().clock_sm = 1980_MHz;
  EXPECT_THAT(watch_for(5min), IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::launch
