// SPDX-License-Identifier: Apache-2.0
// CUDA's C interfaces as far as gpuwarden calls or simulates them: types and constants of the driver API and of
// cuBLAS, as their references document them. Nothing of the CUDA toolkit is needed to build; where cuda.h is installed
// a test compares everything here with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwarden::cuda {

using Result = int;  // CUresult
using Device = int;
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using MemoryPool = struct MemoryPoolTag*;
using Array = struct ArrayTag*;
struct Uuid {
  unsigned char bytes[16];
};

struct Location {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* win32_metadata;
  struct {
    unsigned char compression;
    unsigned char rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct AccessDescriptor {
  Location location;
  int flags;
};

struct PoolProperties {
  int type;
  int handle_types;
  Location location;
  void* win32_attributes;
  std::size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};

struct Copy2D {
  std::size_t source_x;
  std::size_t source_y;
  int source_type;
  const void* source_host;
  DevicePointer source_device;
  Array source_array;
  std::size_t source_pitch;
  std::size_t target_x;
  std::size_t target_y;
  int target_type;
  void* target_host;
  DevicePointer target_device;
  Array target_array;
  std::size_t target_pitch;
  std::size_t width;
  std::size_t height;
};

struct DeviceProperties {
  int threads_per_block;
  int block_size[3];
  int grid_size[3];
  int shared_memory_per_block;
  int constant_memory;
  int warp_size;
  int pitch;
  int registers_per_block;
  int clock_khz;
  int texture_alignment;
};

struct ContextParameters {
  void* affinity;
  int affinity_count;
  void* graphics;
};

// CUresult.
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kDevicesUnavailable = 46;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kEccUncorrectable = 214;
inline constexpr Result kUnsupportedLimit = 215;
inline constexpr Result kPeerAccessUnsupported = 217;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kUnsupportedPtxVersion = 222;
inline constexpr Result kOperatingSystem = 304;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;
inline constexpr Result kPeerAccessNotEnabled = 705;
inline constexpr Result kPrimaryContextActive = 708;
inline constexpr Result kContextIsDestroyed = 709;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;
inline constexpr Result kHostMemoryNotRegistered = 713;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kNotPermitted = 800;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kSystemNotReady = 802;
inline constexpr Result kSystemDriverMismatch = 803;
inline constexpr Result kCompatNotSupportedOnDevice = 804;
inline constexpr Result kUnknown = 999;

// CUdevice_attribute: those that code asks for by name; the simulator's table has all.
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kComputeMode = 20;
inline constexpr int kUnifiedAddressing = 41;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kManagedMemory = 83;
inline constexpr int kVirtualMemorySupported = 102;
inline constexpr int kPosixHandlesSupported = 103;
inline constexpr int kMemoryPoolsSupported = 115;

// CUdevice_P2PAttribute.
inline constexpr int kP2pPerformanceRank = 1;
inline constexpr int kP2pAccessSupported = 2;
inline constexpr int kP2pNativeAtomicSupported = 3;
inline constexpr int kP2pArrayAccessSupported = 4;

// CUlimit.
inline constexpr int kLimitStackSize = 0;
inline constexpr int kLimitPrintfFifoSize = 1;
inline constexpr int kLimitMallocHeapSize = 2;

// Memory: CUmemorytype, CUmemLocationType, CUmemAllocationType, CUmemAllocationHandleType, CUmemAccess_flags,
// CUmemAllocationGranularity_flags, CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*.
inline constexpr int kMemoryHost = 1;
inline constexpr int kMemoryDevice = 2;
inline constexpr int kMemoryArray = 3;
inline constexpr int kMemoryUnified = 4;
inline constexpr int kLocationDevice = 1;
inline constexpr int kLocationHost = 2;
inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandleNone = 0;
inline constexpr int kHandlePosixFd = 1;
inline constexpr int kAccessNone = 0;
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kGranularityRecommended = 1;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostDeviceMap = 2;
inline constexpr unsigned kHostWriteCombined = 4;
inline constexpr unsigned kRegisterIoMemory = 4;
inline constexpr unsigned kRegisterReadOnly = 8;

// CUpointer_attribute.
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDevicePointer = 3;
inline constexpr int kPointerHostPointer = 4;
inline constexpr int kPointerSyncMemops = 6;
inline constexpr int kPointerBufferId = 7;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerLegacyIpc = 10;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;
inline constexpr int kPointerMapped = 13;
inline constexpr int kPointerHandleTypes = 14;
inline constexpr int kPointerRdma = 15;
inline constexpr int kPointerAccessFlags = 16;
inline constexpr int kPointerPool = 17;

// CUmemPool_attribute.
inline constexpr int kPoolFollowEventDependencies = 1;
inline constexpr int kPoolAllowOpportunistic = 2;
inline constexpr int kPoolAllowInternalDependencies = 3;
inline constexpr int kPoolReleaseThreshold = 4;
inline constexpr int kPoolReservedCurrent = 5;
inline constexpr int kPoolReservedHigh = 6;
inline constexpr int kPoolUsedCurrent = 7;
inline constexpr int kPoolUsedHigh = 8;

// Streams and events: CUstream_flags, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUevent_flags, CUstreamCaptureStatus,
// CUstreamCaptureMode.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr std::uintptr_t kStreamLegacy = 1;
inline constexpr std::uintptr_t kStreamPerThread = 2;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr int kCaptureNone = 0;
inline constexpr int kCaptureRelaxed = 2;

// CUdriverProcAddress_flags, CUdriverProcAddressQueryResult.
inline constexpr std::uint64_t kProcLegacyStream = 1;
inline constexpr std::uint64_t kProcPerThreadStream = 2;
inline constexpr int kProcFound = 0;
inline constexpr int kProcSymbolNotFound = 1;
inline constexpr int kProcVersionNotSufficient = 2;

// CUjit_option.
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferSize = 6;

// cublasStatus_t, cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t (source: cuBLAS manual).
inline constexpr int kCublasSuccess = 0;
inline constexpr int kCublasNoTranspose = 0;
inline constexpr int kCublasTranspose = 1;
inline constexpr int kReal16F = 2;
inline constexpr int kReal16Bf = 14;
inline constexpr int kReal32F = 0;
inline constexpr int kReal8I = 3;
inline constexpr int kReal32I = 10;
inline constexpr int kCompute32F = 68;
inline constexpr int kCompute32FFastTf32 = 77;
inline constexpr int kCompute32I = 72;
inline constexpr int kGemmDefault = -1;
using CublasHandle = struct CublasTag*;

}  // namespace gpuwarden::cuda
