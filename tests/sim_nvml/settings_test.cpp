// SPDX-License-Identifier: Apache-2.0
// What callers change on a GPU shows: to themselves, to other processes, and in power and clocks.
#include "sim_nvml/child.hpp"
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;

/// GPU 0 is busy, GPU 1 idle, GPU 2 a GeForce.
constexpr const char* kFleet = R"(
privileged: true
clock: {frozen: true}
nvlink: direct
gpus:
  - {model: NVIDIA A100-SXM4-80GB, workload: {kind: inference, load: 100, duty: 100}}
  - {model: NVIDIA A100-SXM4-80GB}
  - {model: NVIDIA GeForce RTX 4090}
)";

class Settings : public Simulated {
 protected:
  static void pass(const Nvml& nvml, double seconds) { nvml.call({{"op", "clock"}, {"advance_seconds", seconds}}); }
  template <auto function, auto... args>
  static long long value(const Nvml& nvml, Device device) {
    const std::string text = number<function, args...>(nvml, device);
    EXPECT_EQ(text.find("error"), std::string::npos) << text;
    return std::atoll(text.c_str());
  }
  template <int type>
  static long long clock(const Nvml& nvml, Device device) {
    return value<&F::nvmlDeviceGetClockInfo, type>(nvml, device);
  }
};

TEST_F(Settings, ModesAreKeptAndSeenByOtherProcesses) {
  const Nvml& nvml = start(kFleet);
  Child other([&] {
    const Device gpu = nvml.gpu(1);
    return nvml.nvmlDeviceSetPersistenceMode(gpu, 0) + nvml.nvmlDeviceSetComputeMode(gpu, kComputeModeProhibited);
  });
  ASSERT_EQ(other.wait(), 0);
  EXPECT_EQ(number<&F::nvmlDeviceGetPersistenceMode>(nvml, nvml.gpu(1)), "0");
  EXPECT_EQ(number<&F::nvmlDeviceGetComputeMode>(nvml, nvml.gpu(1)), "2");
  EXPECT_EQ(number<&F::nvmlDeviceGetComputeMode>(nvml, nvml.gpu(0)), "0") << "the other GPU is as it was";
}

TEST_F(Settings, ImpossibleValuesAreRefused) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(1);
  EXPECT_EQ(nvml.nvmlDeviceSetPersistenceMode(gpu, 2), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceSetComputeMode(gpu, 4), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceSetPowerManagementLimit(gpu, 99'000), kInvalidArgument) << "below the product's range";
  EXPECT_EQ(nvml.nvmlDeviceSetPowerManagementLimit(gpu, 401'000), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceSetGpuLockedClocks(gpu, 1400, 300), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceSetApplicationsClocks(gpu, 1593, 1409), kInvalidArgument) << "no clock of the product";
  EXPECT_EQ(nvml.nvmlDeviceSetEccMode(gpu, 2), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceSetEccMode(nvml.gpu(2), 1), kNotSupported) << "a GeForce has no ECC";
  EXPECT_EQ(nvml.nvmlDeviceSetFanSpeed_v2(gpu, 0, 50), kNotSupported) << "an A100 has no fan";
  EXPECT_EQ(nvml.nvmlDeviceSetComputeMode(nullptr, 0), kInvalidArgument);
}

TEST_F(Settings, ALowerPowerLimitSlowsTheGpuAndSaysWhy) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(0);
  pass(nvml, 30);
  const auto before = clock<kClockSm>(nvml, gpu);
  ASSERT_EQ(nvml.nvmlDeviceSetPowerManagementLimit(gpu, 200'000), kSuccess);
  pass(nvml, 30);
  EXPECT_EQ(number<&F::nvmlDeviceGetEnforcedPowerLimit>(nvml, gpu), "200000");
  EXPECT_LE(value<&F::nvmlDeviceGetPowerUsage>(nvml, gpu), 201'000);
  EXPECT_LT(clock<kClockSm>(nvml, gpu), before);
  EXPECT_NE(value<&F::nvmlDeviceGetCurrentClocksThrottleReasons>(nvml, gpu) & 0x4, 0) << "SW power cap";
  PowerValue higher{.version = kPowerValueV2, .scope = kPowerScopeGpu, .milliwatts = 400'000};
  ASSERT_EQ(nvml.nvmlDeviceSetPowerManagementLimit_v2(gpu, &higher), kSuccess);
  EXPECT_EQ(number<&F::nvmlDeviceGetPowerManagementLimit>(nvml, gpu), "400000");
}

TEST_F(Settings, LockedClocksBoundWhatABusyAndAnIdleGpuRunAt) {
  const Nvml& nvml = start(kFleet);
  ASSERT_EQ(nvml.nvmlDeviceSetGpuLockedClocks(nvml.gpu(0), 600, 900), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceSetGpuLockedClocks(nvml.gpu(1), 600, 900), kSuccess);
  const auto before = value<&F::nvmlDeviceGetPowerUsage>(nvml, nvml.gpu(0));
  pass(nvml, 30);
  EXPECT_EQ(clock<kClockGraphics>(nvml, nvml.gpu(0)), 900);
  EXPECT_EQ(clock<kClockGraphics>(nvml, nvml.gpu(1)), 600) << "idle";
  EXPECT_NE(value<&F::nvmlDeviceGetCurrentClocksThrottleReasons>(nvml, nvml.gpu(0)) & 0x2, 0) << "clock setting";
  const auto slow = value<&F::nvmlDeviceGetPowerUsage>(nvml, nvml.gpu(0));
  EXPECT_GT(slow, before);
  EXPECT_LT(slow, 250'000);
  ASSERT_EQ(nvml.nvmlDeviceResetGpuLockedClocks(nvml.gpu(0)), kSuccess);
  pass(nvml, 30);
  EXPECT_GT(clock<kClockGraphics>(nvml, nvml.gpu(0)), 1200);
}

TEST_F(Settings, MemoryClocksAreLockedOnAmpereAndLater) {
  const Nvml& nvml = start(kFleet);
  ASSERT_EQ(nvml.nvmlDeviceSetMemoryLockedClocks(nvml.gpu(2), 405, 810), kSuccess);
  EXPECT_EQ(clock<kClockMemory>(nvml, nvml.gpu(2)), 405);
  ASSERT_EQ(nvml.nvmlDeviceSetMemoryLockedClocks(nvml.gpu(2), 810, 99'999), kSuccess);
  EXPECT_EQ(clock<kClockMemory>(nvml, nvml.gpu(2)), 810);
  ASSERT_EQ(nvml.nvmlDeviceResetMemoryLockedClocks(nvml.gpu(2)), kSuccess);
  EXPECT_EQ(clock<kClockMemory>(nvml, nvml.gpu(2)), 405) << "idle as before";
}

TEST_F(Settings, ApplicationClocksAreOfTheProductsList) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(0);
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetSupportedGraphicsClocks(gpu, 1593, &count, nullptr), kInsufficientSize);
  std::vector<unsigned> clocks(count);
  ASSERT_EQ(nvml.nvmlDeviceGetSupportedGraphicsClocks(gpu, 1593, &count, clocks.data()), kSuccess);
  EXPECT_EQ(clocks.front(), 1410U);
  EXPECT_EQ(clocks.back(), 210U);
  ASSERT_EQ(nvml.nvmlDeviceSetApplicationsClocks(gpu, 1593, 705), kSuccess);
  pass(nvml, 30);
  EXPECT_EQ((number<&F::nvmlDeviceGetApplicationsClock, kClockGraphics>(nvml, gpu)), "705");
  EXPECT_EQ((number<&F::nvmlDeviceGetDefaultApplicationsClock, kClockGraphics>(nvml, gpu)), "1410");
  EXPECT_EQ(clock<kClockGraphics>(nvml, gpu), 705);
  ASSERT_EQ(nvml.nvmlDeviceResetApplicationsClocks(gpu), kSuccess);
  EXPECT_EQ((number<&F::nvmlDeviceGetApplicationsClock, kClockGraphics>(nvml, gpu)), "1410");
  EXPECT_EQ(nvml.nvmlDeviceSetApplicationsClocks(nvml.gpu(2), 10501, 3105), kNotSupported) << "a GeForce has none";
}

TEST_F(Settings, EccModeWaitsForAReset) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(1);
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetEccMode>(nvml, gpu), "1 1");
  ASSERT_EQ(nvml.nvmlDeviceSetEccMode(gpu, 0), kSuccess);
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetEccMode>(nvml, gpu), "1 0");
  ASSERT_FALSE(nvml.call({{"op", "reset"}, {"gpu", 1}}).contains("error"));
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetEccMode>(nvml, gpu), "0 0");
  EXPECT_EQ((number<&F::nvmlDeviceGetTotalEccErrors, kEccCorrected, kEccVolatile>(nvml, gpu)), "error 3")
      << "what is switched off counts nothing";
}

TEST_F(Settings, ClearedCountersBeginAgainAtZero) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(0);
  const auto errors = [&](int counter) {
    unsigned long long count = 0;
    EXPECT_EQ(nvml.nvmlDeviceGetTotalEccErrors(gpu, kEccCorrected, counter, &count), kSuccess);
    return count;
  };
  nvml.call(fault("ecc_corrected=5"));
  ASSERT_EQ(nvml.nvmlDeviceClearEccErrorCounts(gpu, kEccVolatile), kSuccess);
  nvml.call(fault("ecc_corrected=2"));
  EXPECT_EQ(errors(kEccVolatile), 2U);
  EXPECT_EQ(errors(kEccAggregate), 7U);
  ASSERT_EQ(nvml.nvmlDeviceClearEccErrorCounts(gpu, kEccAggregate), kSuccess);
  EXPECT_EQ(errors(kEccAggregate), 0U);
  nvml.call(set("nvlink_replays", 9));
  ASSERT_EQ(nvml.nvmlDeviceResetNvLinkErrorCounters(gpu, 0), kSuccess);
  EXPECT_EQ((number<&F::nvmlDeviceGetNvLinkErrorCounter, 0U, kNvLinkErrorReplay>(nvml, gpu)), "0");
}

TEST_F(Settings, FansFollowTheirPolicy) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(2);
  EXPECT_EQ((number<&F::nvmlDeviceGetFanControlPolicy_v2, 0U>(nvml, gpu)), "0");
  EXPECT_EQ(nvml.nvmlDeviceSetFanSpeed_v2(gpu, 0, 20), kInvalidArgument) << "slower than fans may be set";
  EXPECT_EQ(nvml.nvmlDeviceSetFanSpeed_v2(gpu, 1, 50), kInvalidArgument) << "there is one fan";
  ASSERT_EQ(nvml.nvmlDeviceSetFanSpeed_v2(gpu, 0, 77), kSuccess);
  EXPECT_EQ(number<&F::nvmlDeviceGetFanSpeed>(nvml, gpu), "77");
  EXPECT_EQ((number<&F::nvmlDeviceGetTargetFanSpeed, 0U>(nvml, gpu)), "77");
  EXPECT_EQ((number<&F::nvmlDeviceGetFanControlPolicy_v2, 0U>(nvml, gpu)), "1");
  ASSERT_EQ(nvml.nvmlDeviceSetDefaultFanSpeed_v2(gpu, 0), kSuccess);
  EXPECT_EQ(number<&F::nvmlDeviceGetFanSpeed>(nvml, gpu), "0") << "cool";
}

TEST_F(Settings, AResetBringsTheProductsOwnBackAndMendsWhatItCan) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(1);
  ASSERT_EQ(nvml.nvmlDeviceSetPowerManagementLimit(gpu, 150'000), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceSetGpuLockedClocks(gpu, 900, 900), kSuccess);
  nvml.call({{"op", "fault"}, {"gpu", 1}, {"fault", "reset_required"}});
  EXPECT_EQ(number<&F::nvmlDeviceGetPowerManagementLimit>(nvml, gpu), "error 16");
  ASSERT_FALSE(nvml.call({{"op", "reset"}, {"gpu", 1}}).contains("error"));
  EXPECT_EQ(number<&F::nvmlDeviceGetPowerManagementLimit>(nvml, gpu), "400000");
  EXPECT_EQ(clock<kClockGraphics>(nvml, gpu), 210);
}

TEST_F(Settings, AGpuIsNotResetUnderItsProcesses) {
  const Nvml& nvml = start("gpus: [{model: Tesla T4, processes: [{pid: 4194001, memory: 10MiB}]}]\n");
  EXPECT_TRUE(nvml.call({{"op", "reset"}, {"gpu", 0}}).contains("error"));
}

TEST_F(Settings, DrainingIsShownByAddress) {
  const Nvml& nvml = start(kFleet);
  PciInfo pci{};
  ASSERT_EQ(nvml.nvmlDeviceGetPciInfo_v3(nvml.gpu(1), &pci), kSuccess);
  int state = -1;
  ASSERT_EQ(nvml.nvmlDeviceModifyDrainState(&pci, 1), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceQueryDrainState(&pci, &state), kSuccess);
  EXPECT_EQ(state, 1);
  ASSERT_EQ(nvml.nvmlDeviceGetPciInfo_v3(nvml.gpu(0), &pci), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceQueryDrainState(&pci, &state), kSuccess);
  EXPECT_EQ(state, 0);
}

TEST_F(Settings, WithoutPrivilegeNothingIsChanged) {
  const Nvml& nvml = start("privileged: false\ngpus: [{model: NVIDIA A100-SXM4-80GB}]\n");
  const Device gpu = nvml.gpu(0);
  Return activation = kSuccess;
  EXPECT_EQ(nvml.nvmlDeviceSetPersistenceMode(gpu, 0), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetPowerManagementLimit(gpu, 300'000), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetGpuLockedClocks(gpu, 900, 900), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetApplicationsClocks(gpu, 1593, 705), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetEccMode(gpu, 0), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceClearEccErrorCounts(gpu, kEccVolatile), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetMigMode(gpu, 1, &activation), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetAccountingMode(gpu, 1), kNoPermission);
  EXPECT_EQ(nvml.nvmlDeviceSetComputeMode(gpu, 3), kNoPermission);
  EXPECT_EQ(number<&F::nvmlDeviceGetPersistenceMode>(nvml, gpu), "1");
  EXPECT_EQ(number<&F::nvmlDeviceGetPowerManagementLimit>(nvml, gpu), "400000");
}

TEST_F(Settings, UsersMaySetApplicationClocksOnceTheRestrictionIsLifted) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(0);
  EXPECT_EQ((number<&F::nvmlDeviceGetAPIRestriction, kRestrictedApplicationClocks>(nvml, gpu)), "1");
  ASSERT_EQ(nvml.nvmlDeviceSetAPIRestriction(gpu, kRestrictedApplicationClocks, 0), kSuccess);
  EXPECT_EQ((number<&F::nvmlDeviceGetAPIRestriction, kRestrictedApplicationClocks>(nvml, gpu)), "0");
  EXPECT_EQ((number<&F::nvmlDeviceGetAPIRestriction, kRestrictedAutoBoost>(nvml, gpu)), "error 3");
}

TEST_F(Settings, AccountingRemembersWhoHasEnded) {
  const Nvml& nvml = start(kFleet);
  const Device gpu = nvml.gpu(1);
  unsigned count = 8;
  std::array<unsigned, 8> pids{};
  EXPECT_EQ(nvml.nvmlDeviceGetAccountingPids(gpu, &count, pids.data()), kNotSupported) << "accounting is off";
  ASSERT_EQ(nvml.nvmlDeviceSetAccountingMode(gpu, 1), kSuccess);
  Child worker([] { return ::pause(); });
  const std::string uuid = text<&F::nvmlDeviceGetUUID>(nvml, gpu);
  nvml.call({{"op", "declare"},
             {"pid", worker.pid()},
             {"gpus", {uuid}},
             {"memory_bytes", 5 << 20},
             {"utilization_percent", 40}});
  AccountingStats stats{};
  ASSERT_EQ(nvml.nvmlDeviceGetAccountingStats(gpu, static_cast<unsigned>(worker.pid()), &stats), kSuccess);
  EXPECT_EQ(stats.is_running, 1U);
  EXPECT_EQ(stats.max_memory_usage, 5ULL << 20U);
  EXPECT_EQ(stats.gpu_utilization, 40U);
  pass(nvml, 3);
  worker.kill();
  worker.wait();
  ASSERT_EQ(nvml.nvmlDeviceGetAccountingStats(gpu, static_cast<unsigned>(worker.pid()), &stats), kSuccess);
  EXPECT_EQ(stats.is_running, 0U);
  EXPECT_EQ(stats.time, 3000U);
  ASSERT_EQ(nvml.nvmlDeviceGetAccountingPids(gpu, &count, pids.data()), kSuccess);
  EXPECT_EQ(count, 1U);
  ASSERT_EQ(nvml.nvmlDeviceClearAccountingPids(gpu), kSuccess);
  EXPECT_EQ(nvml.nvmlDeviceGetAccountingStats(gpu, static_cast<unsigned>(worker.pid()), &stats), kNotFound);
}

}  // namespace
}  // namespace gpuwarden::nvml
