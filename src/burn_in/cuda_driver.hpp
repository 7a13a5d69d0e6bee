// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened at run time. Only a forked child calls it: it may hang and it may crash.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "nvidia/cuda_functions.hpp"

namespace gpuwarden::cuda {

/// libcuda's functions by their roles.
struct Functions {
#define GPUWARDEN_CUDA_ROLE(name, symbol) decltype(&cuda::symbol) name = nullptr;
#include "burn_in/cuda_functions.inc"
#undef GPUWARDEN_CUDA_ROLE
};

/// cuBLAS, of which only a product of 16-bit matrices summed in 32 bits is wanted.
struct CublasFunctions {
  int (*create)(CublasHandle*) = nullptr;
  int (*set_stream)(CublasHandle, Stream) = nullptr;
  int (*multiply)(CublasHandle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                  const void*, void*, int, int, int, int) = nullptr;
};

}  // namespace gpuwarden::cuda

namespace gpuwarden::burn_in {

/// Opens libcuda and finds its functions. Fails with unavailable.
Result<cuda::Functions> open_cuda(const std::filesystem::path& library);

/// cuBLAS, with its file's name; nothing where it cannot be opened.
struct Cublas {
  std::string name;
  cuda::CublasFunctions functions;
};
std::optional<Cublas> open_cublas(const std::filesystem::path& library);

/// "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"; `what` is a role of cuda::Functions, or words. Out of
/// memory is unsatisfied, an exclusive or prohibited device permission_denied, no device not_found, all else failed.
Error cuda_error(const cuda::Functions& cuda, std::string_view what, cuda::Result code);
/// What to do about a CUDA that does not start.
std::vector<std::string> next_steps(cuda::Result code);

}  // namespace gpuwarden::burn_in

/// GPUWARDEN_CUDA(cuda, allocate, &pointer, size): calls a function of the driver, and returns its error from the
/// enclosing function.
#define GPUWARDEN_CUDA(functions, name, ...)                                        \
  if (const ::gpuwarden::cuda::Result code_of_call = (functions).name(__VA_ARGS__); \
      code_of_call != ::gpuwarden::cuda::kSuccess)                                  \
  return std::unexpected(::gpuwarden::burn_in::cuda_error(functions, #name, code_of_call))
