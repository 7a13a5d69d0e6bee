// SPDX-License-Identifier: Apache-2.0
// Waiting for events really blocks: clients that trust in it would spin otherwise.
#include <future>

#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock;

class Events : public Simulated {
 protected:
  const Nvml& begin(unsigned long long types) {
    const Nvml& nvml = start("clock: {frozen: true}\ngpus: [{model: NVIDIA A100-SXM4-80GB, count: 2}]\n");
    EXPECT_EQ(nvml.nvmlEventSetCreate(&set_), kSuccess);
    EXPECT_EQ(nvml.nvmlDeviceRegisterEvents(nvml.gpu(0), types, set_), kSuccess);
    return nvml;
  }
  EventSet set_ = nullptr;
};

TEST_F(Events, WithoutOneTheWaitLastsUntilItsTimeout) {
  const Nvml& nvml = begin(kEventXid);
  EventData data{};
  const auto start = Time::now();
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 120), kTimeout);
  EXPECT_GE(Time::now() - start, 120ms);
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 0), kTimeout);
}

TEST_F(Events, OneWakesTheWaiter) {
  const Nvml& nvml = begin(kEventXid);
  EventData data{};
  const auto start = Time::now();
  auto waiter = std::async(std::launch::async, [&] { return nvml.nvmlEventSetWait_v2(set_, &data, 20000); });
  EXPECT_EQ(waiter.wait_for(50ms), std::future_status::timeout) << "it waits";
  nvml.call(fault("xid=31"));
  ASSERT_EQ(waiter.get(), kSuccess);
  EXPECT_LT(Time::now() - start, 10s);
  EXPECT_EQ(data.type, kEventXid);
  EXPECT_EQ(data.data, 31U);
  EXPECT_EQ(data.device, nvml.gpu(0));
}

TEST_F(Events, TheFirstVersionOfTheStructIsNotOverrun) {
  const Nvml& nvml = begin(kEventXid);
  struct {
    EventDataV1 data;
    unsigned long long behind = 0xA5A5A5A5;
  } room{};
  nvml.call(fault("xid=13"));
  ASSERT_EQ(nvml.nvmlEventSetWait(set_, &room.data, 5000), kSuccess);
  EXPECT_EQ(room.data.data, 13U);
  EXPECT_EQ(room.behind, 0xA5A5A5A5);
}

TEST_F(Events, ComeOnceAndInOrder) {
  const Nvml& nvml = begin(kEventXid);
  EventData data{};
  for (const char* what : {"xid=13", "xid=31"}) nvml.call(fault(what));
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 5000), kSuccess);
  EXPECT_EQ(data.data, 13U);
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 5000), kSuccess);
  EXPECT_EQ(data.data, 31U);
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 20), kTimeout);
}

TEST_F(Events, OnlyThoseRegisteredFor) {
  const Nvml& nvml = begin(kEventDoubleBitEcc);
  EventData data{};
  nvml.call(fault("xid=13"));
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 20), kTimeout) << "another kind";
  nvml.call({{"op", "fault"}, {"gpu", 1}, {"fault", "ecc_uncorrected=1"}});
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 20), kTimeout) << "another GPU";
  nvml.call(fault("ecc_uncorrected=1"));
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 5000), kSuccess);
  EXPECT_EQ(data.type, kEventDoubleBitEcc);
}

TEST_F(Events, OfTheTimeBeforeTheSetWasMadeAreNotTold) {
  const Nvml& nvml = begin(kEventXid);
  nvml.call(fault("xid=13"));
  EventSet late = nullptr;
  EventData data{};
  ASSERT_EQ(nvml.nvmlEventSetCreate(&late), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceRegisterEvents(nvml.gpu(0), kEventXid, late), kSuccess);
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(late, &data, 20), kTimeout);
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 20), kSuccess) << "the older set is told";
}

TEST_F(Events, ASetThatWasFreedIsGone) {
  const Nvml& nvml = begin(kEventXid);
  EventData data{};
  EXPECT_EQ(nvml.nvmlEventSetFree(set_), kSuccess);
  EXPECT_EQ(nvml.nvmlEventSetFree(set_), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlEventSetWait_v2(set_, &data, 0), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceRegisterEvents(nvml.gpu(0), kEventXid, set_), kInvalidArgument);
}

TEST_F(Events, KindsThatAGpuHasNotAreRefused) {
  const Nvml& nvml = begin(kEventXid);
  EXPECT_EQ(nvml.nvmlDeviceRegisterEvents(nvml.gpu(0), 1ULL << 40U, set_), kNotSupported);
}

}  // namespace
}  // namespace gpuwarden::nvml
