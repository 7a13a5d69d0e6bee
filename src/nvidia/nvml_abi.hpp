// SPDX-License-Identifier: Apache-2.0
// NVML's C interface as gpuwarden declares it for itself: constants, layouts, handles. Shared by the probe (client,
// through dlopen) and the simulator (server). tests/nvidia compares all of it with nvml.h where that is installed.
// Source of the facts: NVIDIA's NVML API reference (docs.nvidia.com/deploy/nvml-api).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvidia/nvml_basics.hpp"
#include "nvidia/nvml_control_abi.hpp"

namespace gpuwarden::nvml {

inline constexpr unsigned kDeviceNameBufferSize = 96;
inline constexpr unsigned kUuidBufferSize = 96;
inline constexpr unsigned kSerialBufferSize = 30;
inline constexpr unsigned kPartNumberBufferSize = 80;
inline constexpr unsigned kVbiosBufferSize = 32;
inline constexpr unsigned kVersionBufferSize = 80;
inline constexpr unsigned kInforomBufferSize = 16;
inline constexpr unsigned kNvLinkMaxLinks = 18;

inline constexpr unsigned kInitFlagNoGpus = 1;
inline constexpr unsigned kInitFlagNoAttach = 2;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;  ///< includes the reserved part
};

struct MemoryV2 {
  unsigned version;  ///< must be kMemoryV2; the plain number 2 is refused by drivers that check
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
inline constexpr unsigned kMemoryV2 = version_word<MemoryV2>(2);
static_assert(kMemoryV2 == 0x02000028);

struct Bar1Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_memory;
};

/// Entries of the _v2 and _v3 lists (but see ProcessInfoEarly535).
struct ProcessInfoV2 {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

/// What the _v3 lists held in drivers 535.43 to 535.86.
struct ProcessInfoEarly535 {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
  unsigned long long used_protected_memory;
};
inline constexpr unsigned long long kMemoryNotAvailable = ~0ULL;
inline constexpr unsigned kNoInstance = 0xFFFFFFFF;

struct ProcessDetail {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
  unsigned long long used_protected_memory;
};

struct ProcessDetailList {
  unsigned version;
  unsigned mode;  ///< 0 compute, 1 graphics, 2 MPS
  unsigned count;
  ProcessDetail* entries;
};
inline constexpr unsigned kProcessDetailListV1 = version_word<ProcessDetailList>(1);

struct ProcessUtilizationSample {
  unsigned pid;
  unsigned long long time_stamp;
  unsigned sm;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};

struct ConfComputeMemSizeInfo {
  unsigned long long protected_kib;
  unsigned long long unprotected_kib;
};

struct TemperatureV1 {
  unsigned version;
  int sensor;
  int temperature;
};
inline constexpr unsigned kTemperatureV1 = version_word<TemperatureV1>(1);

struct DeviceAttributes {
  unsigned multiprocessors;
  unsigned copy_engines;
  unsigned decoders;
  unsigned encoders;
  unsigned jpeg_engines;
  unsigned ofa_engines;
  unsigned gpu_instance_slices;
  unsigned compute_instance_slices;
  unsigned long long memory_mib;
};

struct EccErrorCounts {
  unsigned long long l1_cache;
  unsigned long long l2_cache;
  unsigned long long device_memory;
  unsigned long long register_file;
};

union Value {
  double f64;
  unsigned u32;
  unsigned long ul;
  unsigned long long u64;
  signed long long s64;
};

struct FieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;
  long long latency_us;
  int value_type;
  Return result;
  Value value;
};
inline constexpr int kValueTypeDouble = 0;
inline constexpr int kValueTypeUnsigned = 1;
inline constexpr int kValueTypeUnsignedLong = 2;
inline constexpr int kValueTypeUnsignedLongLong = 3;
inline constexpr unsigned kFieldMemoryTemperature = 82;
inline constexpr unsigned kFieldTotalEnergy = 83;
inline constexpr unsigned kFieldNvLinkLinkCount = 91;
inline constexpr unsigned kFieldPcieReplayCounter = 94;
inline constexpr unsigned kFieldRemappedCorrected = 142;
inline constexpr unsigned kFieldRemappedUncorrected = 143;
inline constexpr unsigned kFieldRemappedPending = 144;
inline constexpr unsigned kFieldRemappedFailure = 145;
inline constexpr unsigned kFieldPowerAverage = 185;
inline constexpr unsigned kFieldPowerInstant = 186;

inline constexpr unsigned kFieldNvLinkSpeedCommon = 90;        ///< MB/s
inline constexpr unsigned kFieldNvLinkThroughputDataTx = 138;  ///< KiB; the scope id is the link
inline constexpr unsigned kFieldNvLinkThroughputDataRx = 139;
/// The fields that count the nanoseconds of hardware slowdowns; 0 where a driver has none. They were renumbered:
/// nvml.h 12.9 and 13.0 (drivers 575 to 589) have 252 and 253, 13.1 and later have 270 and 271, and elsewhere the same
/// numbers mean power smoothing. Source: history of gen/nvml/nvml.h in github.com/NVIDIA/go-nvml (commits 62ce1e3,
/// 9da9e13, 2a1f6c3).
struct SlowdownFields {
  unsigned hw_thermal = 0;
  unsigned hw_power_brake = 0;
};
constexpr SlowdownFields slowdown_fields(long long driver_branch) {
  if (driver_branch >= 590) return {270, 271};
  return driver_branch >= 575 ? SlowdownFields{252, 253} : SlowdownFields{};
}

/// nvmlDeviceGetViolationStatus; both in nanoseconds.
struct ViolationTime {
  unsigned long long reference_time;
  unsigned long long violation_time;
};
inline constexpr int kPolicyPower = 0;
inline constexpr int kPolicyThermal = 1;
inline constexpr int kPolicySyncBoost = 2;
inline constexpr int kPolicyBoardLimit = 3;
inline constexpr int kPolicyLowUtilization = 4;
inline constexpr int kPolicyReliability = 5;
inline constexpr int kPolicyTotalApplicationClocks = 10;  ///< by any of these

struct RowRemapperHistogram {
  unsigned max;
  unsigned high;
  unsigned partial;
  unsigned low;
  unsigned none;
};

struct FbcStats {
  unsigned sessions;
  unsigned average_fps;
  unsigned average_latency;
};

struct FanSpeedInfo {
  unsigned version;
  unsigned fan;
  unsigned speed;  ///< revolutions per minute
};
inline constexpr unsigned kFanSpeedInfoV1 = version_word<FanSpeedInfo>(1);

struct MarginTemperature {
  unsigned version;
  int margin;
};
inline constexpr unsigned kMarginTemperatureV1 = version_word<MarginTemperature>(1);

/// nvmlGpuFabricInfo_v2_t.
struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
inline constexpr unsigned kFabricInfoV2 = version_word<FabricInfo>(2);
static_assert(kFabricInfoV2 == 0x02000024);
inline constexpr unsigned char kFabricNotSupported = 0;
inline constexpr unsigned char kFabricNotStarted = 1;
inline constexpr unsigned char kFabricInProgress = 2;
inline constexpr unsigned char kFabricCompleted = 3;

/// nvmlConfComputeSystemState_t: without a version word.
struct ConfComputeSystemState {
  unsigned environment;
  unsigned feature;  ///< 0 off, 1 on
  unsigned developer_tools;
};

struct AddressingMode {
  unsigned version;
  unsigned value;  ///< 0 none, 1 HMM, 2 ATS
};
inline constexpr unsigned kAddressingModeV1 = version_word<AddressingMode>(1);

struct GpmSampleOpaque;
using GpmSample = GpmSampleOpaque*;
struct GpmMetric {
  unsigned id;
  Return result;
  double value;
  char* short_name;
  char* long_name;
  char* unit;
};
/// The array's length differs between headers (98 in 11.8); the library reads `count` entries.
struct GpmMetricsGet {
  unsigned version;
  unsigned count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[98];
};
inline constexpr unsigned kGpmMetricsGetVersion = 1;
struct GpmSupport {
  unsigned version;
  unsigned supported;
};
inline constexpr unsigned kGpmSupportVersion = 1;
inline constexpr unsigned kGpmSmUtil = 2;
inline constexpr unsigned kGpmSmOccupancy = 3;
inline constexpr unsigned kGpmAnyTensorUtil = 5;
inline constexpr unsigned kGpmDramBandwidthUtil = 10;
inline constexpr unsigned kGpmFp64Util = 11;
inline constexpr unsigned kGpmFp32Util = 12;
inline constexpr unsigned kGpmFp16Util = 13;
inline constexpr unsigned kGpmNvLinkRx = 60;  ///< MiB/s
inline constexpr unsigned kGpmNvLinkTx = 61;  ///< MiB/s

struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
/// What nvmlEventSetWait (without _v2) fills.
struct EventDataV1 {
  Device device;
  unsigned long long type;
  unsigned long long data;
};
inline constexpr unsigned long long kEventSingleBitEcc = 0x1;
inline constexpr unsigned long long kEventDoubleBitEcc = 0x2;
inline constexpr unsigned long long kEventPState = 0x4;
inline constexpr unsigned long long kEventXid = 0x8;
inline constexpr unsigned long long kEventClock = 0x10;
inline constexpr unsigned long long kEventMigConfigChange = 0x100;

// Enumerations travel as int.
inline constexpr int kClockGraphics = 0;
inline constexpr int kClockSm = 1;
inline constexpr int kClockMemory = 2;
inline constexpr int kClockVideo = 3;
inline constexpr int kClockIdCurrent = 0;
inline constexpr int kClockIdAppTarget = 1;
inline constexpr int kClockIdAppDefault = 2;
inline constexpr int kClockIdCustomerBoostMax = 3;
inline constexpr int kTemperatureGpu = 0;
inline constexpr int kThresholdShutdown = 0;
inline constexpr int kThresholdSlowdown = 1;
inline constexpr int kThresholdMemoryMax = 2;
inline constexpr int kThresholdGpuMax = 3;
inline constexpr int kThresholdAcousticCurrent = 5;
inline constexpr int kInforomOem = 0;
inline constexpr int kInforomEcc = 1;
inline constexpr int kInforomPower = 2;
inline constexpr int kRetiredSingleBit = 0;
inline constexpr int kRetiredDoubleBit = 1;
inline constexpr int kNvLinkErrorReplay = 0;
inline constexpr int kNvLinkErrorRecovery = 1;
inline constexpr int kNvLinkErrorCrcFlit = 2;
inline constexpr int kNvLinkErrorCrcData = 3;
inline constexpr int kEccCorrected = 0;
inline constexpr int kEccUncorrected = 1;
inline constexpr int kEccVolatile = 0;
inline constexpr int kEccAggregate = 1;
inline constexpr int kMemoryLocationL1 = 0;
inline constexpr int kMemoryLocationL2 = 1;
inline constexpr int kMemoryLocationDram = 2;
inline constexpr int kMemoryLocationRegisterFile = 3;
inline constexpr int kMemoryLocationTexture = 4;
inline constexpr int kMemoryLocationShared = 5;
inline constexpr int kMemoryLocationCbu = 6;
inline constexpr int kMemoryLocationSram = 7;
inline constexpr int kPcieTx = 0;
inline constexpr int kPcieRx = 1;
inline constexpr int kPStateUnknown = 32;
inline constexpr int kComputeModeDefault = 0;
inline constexpr int kComputeModeExclusiveThread = 1;
inline constexpr int kComputeModeProhibited = 2;
inline constexpr int kComputeModeExclusiveProcess = 3;
inline constexpr int kTopologyInternal = 0;
inline constexpr int kTopologySingle = 10;
inline constexpr int kTopologyMultiple = 20;
inline constexpr int kTopologyHostBridge = 30;
inline constexpr int kTopologyNode = 40;
inline constexpr int kTopologySystem = 50;
inline constexpr int kP2pOk = 0;
inline constexpr int kP2pChipsetNotSupported = 1;
inline constexpr int kP2pGpuNotSupported = 2;
inline constexpr int kP2pTopologyNotSupported = 3;
inline constexpr int kP2pDisabledByRegistry = 4;
inline constexpr int kP2pCapsRead = 0;
inline constexpr int kP2pCapsWrite = 1;
inline constexpr int kP2pCapsAtomics = 3;
inline constexpr int kP2pNotSupported = 5;
inline constexpr int kP2pCapsNvLink = 2;
inline constexpr unsigned kAffinityScopeNode = 0;
inline constexpr unsigned kAffinityScopeSocket = 1;

/// nvmlDeviceGetArchitecture's numbers.
inline constexpr unsigned kArchKepler = 2;
inline constexpr unsigned kArchMaxwell = 3;
inline constexpr unsigned kArchPascal = 4;
inline constexpr unsigned kArchVolta = 5;
inline constexpr unsigned kArchTuring = 6;
inline constexpr unsigned kArchAmpere = 7;
inline constexpr unsigned kArchAda = 8;
inline constexpr unsigned kArchHopper = 9;
inline constexpr unsigned kArchBlackwell = 10;
inline constexpr unsigned kArchUnknown = 0xFFFFFFFF;

/// nvmlDeviceGetBrand's numbers.
inline constexpr int kBrandUnknown = 0;
inline constexpr int kBrandQuadro = 1;
inline constexpr int kBrandTesla = 2;
inline constexpr int kBrandGeForce = 5;
inline constexpr int kBrandTitan = 6;
inline constexpr int kBrandQuadroRtx = 12;
inline constexpr int kBrandNvidiaRtx = 13;
inline constexpr int kBrandNvidia = 14;
inline constexpr int kBrandGeForceRtx = 15;
inline constexpr int kBrandTitanRtx = 16;

}  // namespace gpuwarden::nvml
