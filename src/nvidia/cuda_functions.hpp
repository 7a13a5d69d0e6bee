// SPDX-License-Identifier: Apache-2.0
// Declarations of the driver API's functions: their signatures are taken with decltype where the library is opened at
// run time, and a simulation with another signature does not compile.
#pragma once

#include "nvidia/cuda_abi.hpp"

namespace gpuwarden::cuda {
#define GPUWARDEN_CUDA_FUNCTION(symbol, since, parameters) \
  extern "C" [[gnu::visibility("default")]] Result symbol parameters;
#include "nvidia/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
}  // namespace gpuwarden::cuda
