// SPDX-License-Identifier: Apache-2.0
// What all of NVML's declarations stand on: return codes, handles, version words. Part of nvml_abi.hpp.
#pragma once

namespace gpuwarden::nvml {

/// nvmlReturn_t.
using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kAlreadyInitialized = 5;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kInsufficientPower = 8;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kTimeout = 10;
inline constexpr Return kIrqIssue = 11;
inline constexpr Return kLibraryNotFound = 12;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kCorruptedInforom = 14;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kOperatingSystem = 17;
inline constexpr Return kLibRmVersionMismatch = 18;
inline constexpr Return kInUse = 19;
inline constexpr Return kMemory = 20;
inline constexpr Return kNoData = 21;
inline constexpr Return kVgpuEccNotSupported = 22;
inline constexpr Return kInsufficientResources = 23;
inline constexpr Return kFreqNotSupported = 24;
inline constexpr Return kArgumentVersionMismatch = 25;
inline constexpr Return kDeprecated = 26;
inline constexpr Return kNotReady = 27;
inline constexpr Return kUnknown = 999;

struct DeviceOpaque;
using Device = DeviceOpaque*;
struct EventSetOpaque;
using EventSet = EventSetOpaque*;

/// An NVML struct version word: size in the lower 24 bits, version above.
template <class T>
constexpr unsigned version_word(unsigned version) {
  return static_cast<unsigned>(sizeof(T)) | version << 24U;
}

}  // namespace gpuwarden::nvml
