// SPDX-License-Identifier: Apache-2.0
// Holds our declarations of the CUDA driver API against NVIDIA's own header, where a CUDA 13 toolkit is installed.
#include "nvidia/cuda_abi.hpp"

#include <cstdlib>

#if __has_include(<cuda.h>)
#define __CUDA_API_VERSION_INTERNAL  // declares every version of every function under its own name
#include <cuda.h>
#endif

namespace gpuwarden::cuda {
namespace {

#if defined(CUDA_VERSION) && CUDA_VERSION >= 13000

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                     \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(ours::our_field) == sizeof(theirs::their_field))
#define SAME_VALUE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

SAME_SIZE(Uuid, CUuuid);
SAME_SIZE(DevicePointer, CUdeviceptr);
SAME_SIZE(AllocationHandle, CUmemGenericAllocationHandle);
SAME_SIZE(Location, CUmemLocation);
SAME_FIELD(Location, type, CUmemLocation, type);
SAME_FIELD(Location, id, CUmemLocation, id);
SAME_SIZE(AllocationProperties, CUmemAllocationProp);
SAME_FIELD(AllocationProperties, type, CUmemAllocationProp, type);
SAME_FIELD(AllocationProperties, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(AllocationProperties, location, CUmemAllocationProp, location);
SAME_FIELD(AllocationProperties, win32_metadata, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(AllocationProperties, flags, CUmemAllocationProp, allocFlags);
SAME_FIELD(AllocationProperties, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_FIELD(AllocationProperties, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_FIELD(AllocationProperties, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_SIZE(AccessDescriptor, CUmemAccessDesc);
SAME_FIELD(AccessDescriptor, location, CUmemAccessDesc, location);
SAME_FIELD(AccessDescriptor, flags, CUmemAccessDesc, flags);
SAME_SIZE(PoolProperties, CUmemPoolProps);
SAME_FIELD(PoolProperties, type, CUmemPoolProps, allocType);
SAME_FIELD(PoolProperties, handle_types, CUmemPoolProps, handleTypes);
SAME_FIELD(PoolProperties, location, CUmemPoolProps, location);
SAME_FIELD(PoolProperties, win32_attributes, CUmemPoolProps, win32SecurityAttributes);
SAME_FIELD(PoolProperties, max_size, CUmemPoolProps, maxSize);
SAME_FIELD(PoolProperties, usage, CUmemPoolProps, usage);
SAME_SIZE(Copy2D, CUDA_MEMCPY2D);
SAME_FIELD(Copy2D, source_x, CUDA_MEMCPY2D, srcXInBytes);
SAME_FIELD(Copy2D, source_y, CUDA_MEMCPY2D, srcY);
SAME_FIELD(Copy2D, source_type, CUDA_MEMCPY2D, srcMemoryType);
SAME_FIELD(Copy2D, source_host, CUDA_MEMCPY2D, srcHost);
SAME_FIELD(Copy2D, source_device, CUDA_MEMCPY2D, srcDevice);
SAME_FIELD(Copy2D, source_array, CUDA_MEMCPY2D, srcArray);
SAME_FIELD(Copy2D, source_pitch, CUDA_MEMCPY2D, srcPitch);
SAME_FIELD(Copy2D, target_x, CUDA_MEMCPY2D, dstXInBytes);
SAME_FIELD(Copy2D, target_y, CUDA_MEMCPY2D, dstY);
SAME_FIELD(Copy2D, target_type, CUDA_MEMCPY2D, dstMemoryType);
SAME_FIELD(Copy2D, target_host, CUDA_MEMCPY2D, dstHost);
SAME_FIELD(Copy2D, target_device, CUDA_MEMCPY2D, dstDevice);
SAME_FIELD(Copy2D, target_array, CUDA_MEMCPY2D, dstArray);
SAME_FIELD(Copy2D, target_pitch, CUDA_MEMCPY2D, dstPitch);
SAME_FIELD(Copy2D, width, CUDA_MEMCPY2D, WidthInBytes);
SAME_FIELD(Copy2D, height, CUDA_MEMCPY2D, Height);
SAME_SIZE(DeviceProperties, CUdevprop);
SAME_FIELD(DeviceProperties, block_size, CUdevprop, maxThreadsDim);
SAME_FIELD(DeviceProperties, grid_size, CUdevprop, maxGridSize);
SAME_FIELD(DeviceProperties, shared_memory_per_block, CUdevprop, sharedMemPerBlock);
SAME_FIELD(DeviceProperties, constant_memory, CUdevprop, totalConstantMemory);
SAME_FIELD(DeviceProperties, warp_size, CUdevprop, SIMDWidth);
SAME_FIELD(DeviceProperties, pitch, CUdevprop, memPitch);
SAME_FIELD(DeviceProperties, registers_per_block, CUdevprop, regsPerBlock);
SAME_FIELD(DeviceProperties, clock_khz, CUdevprop, clockRate);
SAME_FIELD(DeviceProperties, texture_alignment, CUdevprop, textureAlign);
SAME_SIZE(ContextParameters, CUctxCreateParams);
SAME_FIELD(ContextParameters, affinity, CUctxCreateParams, execAffinityParams);
SAME_FIELD(ContextParameters, affinity_count, CUctxCreateParams, numExecAffinityParams);
SAME_FIELD(ContextParameters, graphics, CUctxCreateParams, cigParams);

SAME_VALUE(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(kDevicesUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(kUnsupportedLimit, CUDA_ERROR_UNSUPPORTED_LIMIT);
SAME_VALUE(kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME_VALUE(kInvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME_VALUE(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(kNotFound, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(kNotReady, CUDA_ERROR_NOT_READY);
SAME_VALUE(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(kPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME_VALUE(kPeerAccessNotEnabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME_VALUE(kPrimaryContextActive, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
SAME_VALUE(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(kHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME_VALUE(kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME_VALUE(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
SAME_VALUE(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(kCompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME_VALUE(kUnknown, CUDA_ERROR_UNKNOWN);
SAME_VALUE(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(kComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME_VALUE(kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME_VALUE(kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(kManagedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME_VALUE(kVirtualMemorySupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(kPosixHandlesSupported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_VALUE(kMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME_VALUE(kP2pPerformanceRank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
SAME_VALUE(kP2pAccessSupported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
SAME_VALUE(kP2pNativeAtomicSupported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME_VALUE(kP2pArrayAccessSupported, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
SAME_VALUE(kLimitStackSize, CU_LIMIT_STACK_SIZE);
SAME_VALUE(kLimitPrintfFifoSize, CU_LIMIT_PRINTF_FIFO_SIZE);
SAME_VALUE(kLimitMallocHeapSize, CU_LIMIT_MALLOC_HEAP_SIZE);
SAME_VALUE(kMemoryHost, CU_MEMORYTYPE_HOST);
SAME_VALUE(kMemoryDevice, CU_MEMORYTYPE_DEVICE);
SAME_VALUE(kMemoryArray, CU_MEMORYTYPE_ARRAY);
SAME_VALUE(kMemoryUnified, CU_MEMORYTYPE_UNIFIED);
SAME_VALUE(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(kLocationHost, CU_MEM_LOCATION_TYPE_HOST);
SAME_VALUE(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(kHandleNone, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(kHandlePosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(kAccessNone, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME_VALUE(kAccessRead, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME_VALUE(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(kGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME_VALUE(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(kHostDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_VALUE(kHostWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME_VALUE(kRegisterIoMemory, CU_MEMHOSTREGISTER_IOMEMORY);
SAME_VALUE(kRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);
SAME_VALUE(kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_VALUE(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(kPointerDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME_VALUE(kPointerHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME_VALUE(kPointerSyncMemops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME_VALUE(kPointerBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME_VALUE(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(kPointerLegacyIpc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME_VALUE(kPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_VALUE(kPointerRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_VALUE(kPointerMapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME_VALUE(kPointerHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME_VALUE(kPointerRdma, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME_VALUE(kPointerAccessFlags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS);
SAME_VALUE(kPointerPool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME_VALUE(kPoolFollowEventDependencies, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME_VALUE(kPoolAllowOpportunistic, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
SAME_VALUE(kPoolAllowInternalDependencies, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME_VALUE(kPoolReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(kPoolReservedCurrent, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME_VALUE(kPoolReservedHigh, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME_VALUE(kPoolUsedCurrent, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME_VALUE(kPoolUsedHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(kEventInterprocess, CU_EVENT_INTERPROCESS);
SAME_VALUE(kProcLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME_VALUE(kProcPerThreadStream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME_VALUE(kProcFound, CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(kProcSymbolNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_VALUE(kProcVersionNotSufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_VALUE(kJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME_VALUE(kJitErrorLogBufferSize, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

/// Number of parameters, and the size of each, agree between our signature and NVIDIA's declaration.
template <class Ours, class Theirs>
constexpr bool kCompatible = false;
template <class R1, class... A1, class R2, class... A2>
  requires(sizeof...(A1) == sizeof...(A2))
constexpr bool kCompatible<R1(A1...), R2(A2...)> =
    sizeof(R1) == sizeof(R2) && ((sizeof(A1) == sizeof(A2) && std::is_pointer_v<A1> == std::is_pointer_v<A2>) && ...);

TEST(CudaAbi, EverySignatureIsNvidias) {
  int compared = 0;
#define GPUWARDEN_CUDA_FUNCTION(symbol, since, parameters)                    \
  static_assert(kCompatible<Result parameters, decltype(::symbol)>, #symbol); \
  ++compared;
#include "nvidia/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
  EXPECT_GT(compared, 130);
}

TEST(CudaAbi, SpecialStreamsAreNvidias) {
  EXPECT_EQ(kStreamLegacy, reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY));
  EXPECT_EQ(kStreamPerThread, reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD));
}

#else

TEST(CudaAbi, AgreesWithNvidiasHeader) {
  if (std::getenv("GPUWARDEN_REQUIRE_CUDA_H") != nullptr) FAIL() << "cuda.h of CUDA 13 or newer is not installed";
  GTEST_SKIP() << "cuda.h of CUDA 13 or newer is not installed: nothing to compare with";
}

#endif

}  // namespace
}  // namespace gpuwarden::cuda
