// SPDX-License-Identifier: Apache-2.0
// Holds our declarations of NVML against NVIDIA's own header, where that is installed.
#include "nvidia/nvml_abi.hpp"

#include <cstdlib>

#if __has_include(<nvml.h>)
#define NVML_NO_UNVERSIONED_FUNC_DEFS  // keeps nvmlInit and nvmlInit_v2 apart
#include <nvml.h>
#define GPUWARDEN_HAVE_NVML_H 1
#else
#define GPUWARDEN_HAVE_NVML_H 0
#endif

namespace gpuwarden::nvml {
namespace {

#if GPUWARDEN_HAVE_NVML_H

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                     \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(ours::our_field) == sizeof(theirs::their_field))
#define SAME_VALUE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SAME_SIZE(PciInfo, nvmlPciInfo_t);
SAME_FIELD(PciInfo, bus_id_legacy, nvmlPciInfo_t, busIdLegacy);
SAME_FIELD(PciInfo, domain, nvmlPciInfo_t, domain);
SAME_FIELD(PciInfo, bus, nvmlPciInfo_t, bus);
SAME_FIELD(PciInfo, device, nvmlPciInfo_t, device);
SAME_FIELD(PciInfo, pci_device_id, nvmlPciInfo_t, pciDeviceId);
SAME_FIELD(PciInfo, pci_subsystem_id, nvmlPciInfo_t, pciSubSystemId);
SAME_FIELD(PciInfo, bus_id, nvmlPciInfo_t, busId);
SAME_SIZE(Memory, nvmlMemory_t);
SAME_FIELD(Memory, free, nvmlMemory_t, free);
SAME_FIELD(Memory, used, nvmlMemory_t, used);
SAME_SIZE(MemoryV2, nvmlMemory_v2_t);
SAME_FIELD(MemoryV2, version, nvmlMemory_v2_t, version);
SAME_FIELD(MemoryV2, total, nvmlMemory_v2_t, total);
SAME_FIELD(MemoryV2, reserved, nvmlMemory_v2_t, reserved);
SAME_FIELD(MemoryV2, free, nvmlMemory_v2_t, free);
SAME_FIELD(MemoryV2, used, nvmlMemory_v2_t, used);
SAME_VALUE(kMemoryV2, nvmlMemory_v2);
SAME_SIZE(Bar1Memory, nvmlBAR1Memory_t);
SAME_FIELD(Bar1Memory, free, nvmlBAR1Memory_t, bar1Free);
SAME_FIELD(Bar1Memory, used, nvmlBAR1Memory_t, bar1Used);
SAME_SIZE(Utilization, nvmlUtilization_t);
SAME_FIELD(Utilization, memory, nvmlUtilization_t, memory);
SAME_SIZE(ProcessInfoV1, nvmlProcessInfo_v1_t);
SAME_FIELD(ProcessInfoV1, used_memory, nvmlProcessInfo_v1_t, usedGpuMemory);
SAME_SIZE(ProcessInfoV2, nvmlProcessInfo_v2_t);
SAME_FIELD(ProcessInfoV2, used_memory, nvmlProcessInfo_v2_t, usedGpuMemory);
SAME_FIELD(ProcessInfoV2, gpu_instance, nvmlProcessInfo_v2_t, gpuInstanceId);
SAME_FIELD(ProcessInfoV2, compute_instance, nvmlProcessInfo_v2_t, computeInstanceId);
static_assert(sizeof(ProcessInfoEarly535) == 32);
SAME_SIZE(ProcessUtilizationSample, nvmlProcessUtilizationSample_t);
SAME_FIELD(ProcessUtilizationSample, time_stamp, nvmlProcessUtilizationSample_t, timeStamp);
SAME_FIELD(ProcessUtilizationSample, sm, nvmlProcessUtilizationSample_t, smUtil);
SAME_FIELD(ProcessUtilizationSample, memory, nvmlProcessUtilizationSample_t, memUtil);
SAME_FIELD(ProcessUtilizationSample, encoder, nvmlProcessUtilizationSample_t, encUtil);
SAME_FIELD(ProcessUtilizationSample, decoder, nvmlProcessUtilizationSample_t, decUtil);
SAME_SIZE(DeviceAttributes, nvmlDeviceAttributes_t);
SAME_FIELD(DeviceAttributes, multiprocessors, nvmlDeviceAttributes_t, multiprocessorCount);
SAME_FIELD(DeviceAttributes, gpu_instance_slices, nvmlDeviceAttributes_t, gpuInstanceSliceCount);
SAME_FIELD(DeviceAttributes, compute_instance_slices, nvmlDeviceAttributes_t, computeInstanceSliceCount);
SAME_FIELD(DeviceAttributes, memory_mib, nvmlDeviceAttributes_t, memorySizeMB);
SAME_SIZE(EccErrorCounts, nvmlEccErrorCounts_t);
SAME_SIZE(Value, nvmlValue_t);
SAME_SIZE(FieldValue, nvmlFieldValue_t);
SAME_FIELD(FieldValue, scope_id, nvmlFieldValue_t, scopeId);
SAME_FIELD(FieldValue, timestamp, nvmlFieldValue_t, timestamp);
SAME_FIELD(FieldValue, latency_us, nvmlFieldValue_t, latencyUsec);
SAME_FIELD(FieldValue, value_type, nvmlFieldValue_t, valueType);
SAME_FIELD(FieldValue, result, nvmlFieldValue_t, nvmlReturn);
SAME_FIELD(FieldValue, value, nvmlFieldValue_t, value);
SAME_SIZE(EventData, nvmlEventData_t);
SAME_FIELD(EventData, type, nvmlEventData_t, eventType);
SAME_FIELD(EventData, data, nvmlEventData_t, eventData);
SAME_FIELD(EventData, gpu_instance, nvmlEventData_t, gpuInstanceId);

SAME_SIZE(ViolationTime, nvmlViolationTime_t);
SAME_FIELD(ViolationTime, violation_time, nvmlViolationTime_t, violationTime);
SAME_SIZE(RowRemapperHistogram, nvmlRowRemapperHistogramValues_t);
SAME_FIELD(RowRemapperHistogram, partial, nvmlRowRemapperHistogramValues_t, partial);
SAME_FIELD(RowRemapperHistogram, none, nvmlRowRemapperHistogramValues_t, none);
SAME_SIZE(FbcStats, nvmlFBCStats_t);
SAME_SIZE(GpmMetric, nvmlGpmMetric_t);
SAME_FIELD(GpmMetric, result, nvmlGpmMetric_t, nvmlReturn);
SAME_FIELD(GpmMetric, value, nvmlGpmMetric_t, value);
static_assert(offsetof(GpmMetricsGet, metrics) == offsetof(nvmlGpmMetricsGet_t, metrics));
SAME_FIELD(GpmMetricsGet, count, nvmlGpmMetricsGet_t, numMetrics);
SAME_FIELD(GpmMetricsGet, second, nvmlGpmMetricsGet_t, sample2);
SAME_VALUE(kGpmMetricsGetVersion, NVML_GPM_METRICS_GET_VERSION);
SAME_SIZE(GpmSupport, nvmlGpmSupport_t);
SAME_VALUE(kGpmSmUtil, NVML_GPM_METRIC_SM_UTIL);
SAME_VALUE(kGpmSmOccupancy, NVML_GPM_METRIC_SM_OCCUPANCY);
SAME_VALUE(kGpmAnyTensorUtil, NVML_GPM_METRIC_ANY_TENSOR_UTIL);
SAME_VALUE(kGpmDramBandwidthUtil, NVML_GPM_METRIC_DRAM_BW_UTIL);
SAME_VALUE(kGpmFp16Util, NVML_GPM_METRIC_FP16_UTIL);
SAME_VALUE(kGpmNvLinkRx, NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC);
SAME_VALUE(kGpmNvLinkTx, NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC);
SAME_VALUE(kFieldNvLinkSpeedCommon, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON);
SAME_VALUE(kFieldNvLinkThroughputDataTx, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
SAME_VALUE(kFieldNvLinkThroughputDataRx, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
SAME_VALUE(kPolicyThermal, NVML_PERF_POLICY_THERMAL);
SAME_VALUE(kPolicyReliability, NVML_PERF_POLICY_RELIABILITY);
SAME_VALUE(kPolicyTotalApplicationClocks, NVML_PERF_POLICY_TOTAL_APP_CLOCKS);
SAME_VALUE(kThresholdAcousticCurrent, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR);
SAME_VALUE(kInforomPower, NVML_INFOROM_POWER);
SAME_VALUE(kRetiredDoubleBit, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
SAME_VALUE(kNvLinkErrorCrcFlit, NVML_NVLINK_ERROR_DL_CRC_FLIT);
SAME_VALUE(kNvLinkErrorCrcData, NVML_NVLINK_ERROR_DL_CRC_DATA);
SAME_VALUE(kMemoryLocationCbu, NVML_MEMORY_LOCATION_CBU);
SAME_VALUE(kMemoryLocationSram, NVML_MEMORY_LOCATION_SRAM);
SAME_VALUE(kP2pChipsetNotSupported, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED);
SAME_VALUE(kP2pDisabledByRegistry, NVML_P2P_STATUS_DISABLED_BY_REGKEY);
SAME_VALUE(kP2pCapsWrite, NVML_P2P_CAPS_INDEX_WRITE);
SAME_VALUE(kP2pCapsAtomics, NVML_P2P_CAPS_INDEX_ATOMICS);

SAME_VALUE(kUninitialized, NVML_ERROR_UNINITIALIZED);
SAME_VALUE(kInvalidArgument, NVML_ERROR_INVALID_ARGUMENT);
SAME_VALUE(kNotSupported, NVML_ERROR_NOT_SUPPORTED);
SAME_VALUE(kNoPermission, NVML_ERROR_NO_PERMISSION);
SAME_VALUE(kAlreadyInitialized, NVML_ERROR_ALREADY_INITIALIZED);
SAME_VALUE(kNotFound, NVML_ERROR_NOT_FOUND);
SAME_VALUE(kInsufficientSize, NVML_ERROR_INSUFFICIENT_SIZE);
SAME_VALUE(kInsufficientPower, NVML_ERROR_INSUFFICIENT_POWER);
SAME_VALUE(kDriverNotLoaded, NVML_ERROR_DRIVER_NOT_LOADED);
SAME_VALUE(kTimeout, NVML_ERROR_TIMEOUT);
SAME_VALUE(kIrqIssue, NVML_ERROR_IRQ_ISSUE);
SAME_VALUE(kLibraryNotFound, NVML_ERROR_LIBRARY_NOT_FOUND);
SAME_VALUE(kFunctionNotFound, NVML_ERROR_FUNCTION_NOT_FOUND);
SAME_VALUE(kCorruptedInforom, NVML_ERROR_CORRUPTED_INFOROM);
SAME_VALUE(kGpuIsLost, NVML_ERROR_GPU_IS_LOST);
SAME_VALUE(kResetRequired, NVML_ERROR_RESET_REQUIRED);
SAME_VALUE(kOperatingSystem, NVML_ERROR_OPERATING_SYSTEM);
SAME_VALUE(kLibRmVersionMismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
SAME_VALUE(kInUse, NVML_ERROR_IN_USE);
SAME_VALUE(kMemory, NVML_ERROR_MEMORY);
SAME_VALUE(kNoData, NVML_ERROR_NO_DATA);
SAME_VALUE(kInsufficientResources, NVML_ERROR_INSUFFICIENT_RESOURCES);
SAME_VALUE(kFreqNotSupported, NVML_ERROR_FREQ_NOT_SUPPORTED);
SAME_VALUE(kArgumentVersionMismatch, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
SAME_VALUE(kUnknown, NVML_ERROR_UNKNOWN);
SAME_VALUE(kDeviceNameBufferSize, NVML_DEVICE_NAME_V2_BUFFER_SIZE);
SAME_VALUE(kUuidBufferSize, NVML_DEVICE_UUID_V2_BUFFER_SIZE);
SAME_VALUE(kSerialBufferSize, NVML_DEVICE_SERIAL_BUFFER_SIZE);
SAME_VALUE(kPartNumberBufferSize, NVML_DEVICE_PART_NUMBER_BUFFER_SIZE);
SAME_VALUE(kVbiosBufferSize, NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE);
SAME_VALUE(kVersionBufferSize, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
SAME_VALUE(kNvLinkMaxLinks, NVML_NVLINK_MAX_LINKS);
SAME_VALUE(kInitFlagNoGpus, NVML_INIT_FLAG_NO_GPUS);
SAME_VALUE(kInitFlagNoAttach, NVML_INIT_FLAG_NO_ATTACH);
SAME_VALUE(kFieldMemoryTemperature, NVML_FI_DEV_MEMORY_TEMP);
SAME_VALUE(kFieldTotalEnergy, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION);
SAME_VALUE(kFieldNvLinkLinkCount, NVML_FI_DEV_NVLINK_LINK_COUNT);
SAME_VALUE(kFieldPcieReplayCounter, NVML_FI_DEV_PCIE_REPLAY_COUNTER);
SAME_VALUE(kFieldRemappedCorrected, NVML_FI_DEV_REMAPPED_COR);
SAME_VALUE(kFieldRemappedUncorrected, NVML_FI_DEV_REMAPPED_UNC);
SAME_VALUE(kFieldRemappedPending, NVML_FI_DEV_REMAPPED_PENDING);
SAME_VALUE(kFieldRemappedFailure, NVML_FI_DEV_REMAPPED_FAILURE);
SAME_VALUE(kValueTypeUnsigned, NVML_VALUE_TYPE_UNSIGNED_INT);
SAME_VALUE(kValueTypeUnsignedLongLong, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
SAME_VALUE(kEventSingleBitEcc, nvmlEventTypeSingleBitEccError);
SAME_VALUE(kEventDoubleBitEcc, nvmlEventTypeDoubleBitEccError);
SAME_VALUE(kEventPState, nvmlEventTypePState);
SAME_VALUE(kEventXid, nvmlEventTypeXidCriticalError);
SAME_VALUE(kEventClock, nvmlEventTypeClock);
SAME_VALUE(kEventMigConfigChange, nvmlEventMigConfigChange);
SAME_VALUE(kClockSm, NVML_CLOCK_SM);
SAME_VALUE(kClockMemory, NVML_CLOCK_MEM);
SAME_VALUE(kClockVideo, NVML_CLOCK_VIDEO);
SAME_VALUE(kClockIdCustomerBoostMax, NVML_CLOCK_ID_CUSTOMER_BOOST_MAX);
SAME_VALUE(kThresholdShutdown, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN);
SAME_VALUE(kThresholdSlowdown, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
SAME_VALUE(kThresholdMemoryMax, NVML_TEMPERATURE_THRESHOLD_MEM_MAX);
SAME_VALUE(kThresholdGpuMax, NVML_TEMPERATURE_THRESHOLD_GPU_MAX);
SAME_VALUE(kEccUncorrected, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
SAME_VALUE(kEccAggregate, NVML_AGGREGATE_ECC);
SAME_VALUE(kMemoryLocationL1, NVML_MEMORY_LOCATION_L1_CACHE);
SAME_VALUE(kMemoryLocationDram, NVML_MEMORY_LOCATION_DRAM);
SAME_VALUE(kMemoryLocationRegisterFile, NVML_MEMORY_LOCATION_REGISTER_FILE);
SAME_VALUE(kPcieRx, NVML_PCIE_UTIL_RX_BYTES);
SAME_VALUE(kPStateUnknown, NVML_PSTATE_UNKNOWN);
SAME_VALUE(kComputeModeProhibited, NVML_COMPUTEMODE_PROHIBITED);
SAME_VALUE(kComputeModeExclusiveProcess, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
SAME_VALUE(kTopologySingle, NVML_TOPOLOGY_SINGLE);
SAME_VALUE(kTopologyMultiple, NVML_TOPOLOGY_MULTIPLE);
SAME_VALUE(kTopologyHostBridge, NVML_TOPOLOGY_HOSTBRIDGE);
SAME_VALUE(kTopologyNode, NVML_TOPOLOGY_NODE);
SAME_VALUE(kTopologySystem, NVML_TOPOLOGY_SYSTEM);
SAME_VALUE(kP2pNotSupported, NVML_P2P_STATUS_NOT_SUPPORTED);
SAME_VALUE(kP2pCapsNvLink, NVML_P2P_CAPS_INDEX_NVLINK);
SAME_VALUE(kArchVolta, NVML_DEVICE_ARCH_VOLTA);
SAME_VALUE(kArchAda, NVML_DEVICE_ARCH_ADA);
SAME_VALUE(kArchHopper, NVML_DEVICE_ARCH_HOPPER);
SAME_VALUE(kBrandTesla, NVML_BRAND_TESLA);
SAME_VALUE(kBrandGeForce, NVML_BRAND_GEFORCE);
SAME_VALUE(kBrandTitan, NVML_BRAND_TITAN);
SAME_VALUE(kBrandQuadroRtx, NVML_BRAND_QUADRO_RTX);
SAME_VALUE(kBrandNvidiaRtx, NVML_BRAND_NVIDIA_RTX);
SAME_VALUE(kBrandNvidia, NVML_BRAND_NVIDIA);
SAME_VALUE(kBrandGeForceRtx, NVML_BRAND_GEFORCE_RTX);
SAME_VALUE(kBrandTitanRtx, NVML_BRAND_TITAN_RTX);

SAME_SIZE(Placement, nvmlGpuInstancePlacement_t);
SAME_SIZE(Placement, nvmlComputeInstancePlacement_t);
SAME_SIZE(GpuInstanceProfileInfo, nvmlGpuInstanceProfileInfo_t);
SAME_FIELD(GpuInstanceProfileInfo, instances, nvmlGpuInstanceProfileInfo_t, instanceCount);
SAME_FIELD(GpuInstanceProfileInfo, ofa_engines, nvmlGpuInstanceProfileInfo_t, ofaCount);
SAME_FIELD(GpuInstanceProfileInfo, memory_mib, nvmlGpuInstanceProfileInfo_t, memorySizeMB);
SAME_SIZE(GpuInstanceProfileInfoV2, nvmlGpuInstanceProfileInfo_v2_t);
SAME_FIELD(GpuInstanceProfileInfoV2, id, nvmlGpuInstanceProfileInfo_v2_t, id);
SAME_FIELD(GpuInstanceProfileInfoV2, memory_mib, nvmlGpuInstanceProfileInfo_v2_t, memorySizeMB);
SAME_FIELD(GpuInstanceProfileInfoV2, name, nvmlGpuInstanceProfileInfo_v2_t, name);
SAME_SIZE(GpuInstanceInfo, nvmlGpuInstanceInfo_t);
SAME_FIELD(GpuInstanceInfo, profile, nvmlGpuInstanceInfo_t, profileId);
SAME_FIELD(GpuInstanceInfo, placement, nvmlGpuInstanceInfo_t, placement);
SAME_SIZE(ComputeInstanceProfileInfo, nvmlComputeInstanceProfileInfo_t);
SAME_FIELD(ComputeInstanceProfileInfo, ofa_engines, nvmlComputeInstanceProfileInfo_t, sharedOfaCount);
SAME_SIZE(ComputeInstanceProfileInfoV2, nvmlComputeInstanceProfileInfo_v2_t);
SAME_FIELD(ComputeInstanceProfileInfoV2, name, nvmlComputeInstanceProfileInfo_v2_t, name);
SAME_SIZE(ComputeInstanceInfo, nvmlComputeInstanceInfo_t);
SAME_FIELD(ComputeInstanceInfo, gpu_instance, nvmlComputeInstanceInfo_t, gpuInstance);
SAME_FIELD(ComputeInstanceInfo, placement, nvmlComputeInstanceInfo_t, placement);
SAME_SIZE(AccountingStats, nvmlAccountingStats_t);
SAME_FIELD(AccountingStats, max_memory_usage, nvmlAccountingStats_t, maxMemoryUsage);
SAME_FIELD(AccountingStats, start_time, nvmlAccountingStats_t, startTime);
SAME_FIELD(AccountingStats, is_running, nvmlAccountingStats_t, isRunning);
static_assert(sizeof(PowerValue) == 12);
static_assert(sizeof(GpuInstanceProfileInfoV3) == 152);

/// Number of parameters, and the size of each, agree between our signature and NVIDIA's declaration.
template <class Ours, class Theirs>
constexpr bool kCompatible = false;
template <class R1, class... A1, class R2, class... A2>
  requires(sizeof...(A1) == sizeof...(A2))
constexpr bool kCompatible<R1(A1...), R2(A2...)> =
    sizeof(R1) == sizeof(R2) && ((sizeof(A1) == sizeof(A2) && std::is_pointer_v<A1> == std::is_pointer_v<A2>) && ...);

TEST(NvmlAbi, EverySignatureIsNvidias) {
  int compared = 0;
// Newer functions than the header's (Debian 12 has NVML 11.8's) are compared where the header is new enough.
#if NVML_API_VERSION < 12
#define GPUWARDEN_NVML_11_8_ONLY
#endif
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters)            \
  static_assert(kCompatible<result parameters, decltype(::symbol)>, #symbol); \
  ++compared;
#define GPUWARDEN_NVML_SIMULATED(result, symbol, since, parameters) \
  GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters)
#include "nvidia/nvml_functions.inc"
  EXPECT_GT(compared, 150);
}

#else

TEST(NvmlAbi, AgreesWithNvidiasHeader) {
  if (std::getenv("GPUWARDEN_REQUIRE_NVML_H") != nullptr) FAIL() << "nvml.h is not installed (libnvidia-ml-dev)";
  GTEST_SKIP() << "nvml.h is not installed: nothing to compare with";
}

#endif

}  // namespace
}  // namespace gpuwarden::nvml
