// SPDX-License-Identifier: Apache-2.0
// Declared, because gpuwarden calls them on real drivers, but not simulated: no code runs on a simulated GPU.
#include "nvidia/cuda_functions.hpp"

namespace gpuwarden::cuda {
extern "C" {

Result cuModuleLoadDataEx(Module*, const void*, unsigned, int*, void**) { return kNotSupported; }
Result cuModuleUnload(Module) { return kNotSupported; }
Result cuModuleGetFunction(Function*, Module, const char*) { return kNotSupported; }
// NOLINTNEXTLINE(readability-function-size): as CUDA has it
Result cuLaunchKernel(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                      void**) {
  return kNotSupported;
}

}  // extern "C"
}  // namespace gpuwarden::cuda
