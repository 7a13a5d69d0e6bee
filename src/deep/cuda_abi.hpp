// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's C interfaces that the deep test calls: types and constants as the driver API reference and
// cuBLAS's manual document them. Nothing of the CUDA toolkit is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwarden::cuda {

using Result = int;  // CUresult
using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
struct Uuid {
  unsigned char bytes[16];
};

// CUresult (source: CUDA driver API reference, data types).
inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kDevicesUnavailable = 46;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kEccUncorrectable = 214;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kUnsupportedPtxVersion = 222;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kSystemNotReady = 802;
inline constexpr Result kSystemDriverMismatch = 803;
inline constexpr Result kCompatNotSupportedOnDevice = 804;
inline constexpr Result kUnknown = 999;

// CUdevice_attribute.
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;

// CUjit_option.
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferSize = 6;

// cublasStatus_t, cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t (source: cuBLAS manual).
inline constexpr int kCublasSuccess = 0;
inline constexpr int kCublasNoTranspose = 0;
inline constexpr int kReal16F = 2;
inline constexpr int kReal16Bf = 14;
inline constexpr int kCompute32F = 68;
inline constexpr int kGemmDefault = -1;
using CublasHandle = struct CublasTag*;

/// libcuda's functions by their roles.
struct Functions {
#define GPUWARDEN_CUDA_FUNCTION(name, symbol, parameters) Result(*name) parameters = nullptr;
#include "deep/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
};

/// cuBLAS, of which only a product of 16-bit matrices summed in 32 bits is wanted.
struct CublasFunctions {
  int (*create)(CublasHandle*) = nullptr;
  int (*set_stream)(CublasHandle, Stream) = nullptr;
  int (*multiply)(CublasHandle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                  const void*, void*, int, int, int, int) = nullptr;
};

}  // namespace gpuwarden::cuda
