// SPDX-License-Identifier: Apache-2.0
// The same kind of work on a GPU, through the CUDA driver opened at run time: no toolkit is needed to build or run it.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace example {

/// y = a * x + y for every element; PTX of the oldest version that today's drivers still translate.
inline constexpr const char* kKernel = R"(.version 6.0
.target sm_52
.address_size 64
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p; .reg .f32 %f<5>; .reg .b32 %r<6>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  mul.wide.u32 %d3, %r5, 4;
  add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.f32 %f2, [%d4]; ld.global.f32 %f3, [%d5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%d5], %f4;
DONE:
  ret;
}
)";

/// What came out: launches done, and whether the result was what it must be.
struct GpuResult {
  int launches = 0;
  double largest_error = 0;
};

/// The functions of the driver API that are used (source: NVIDIA's CUDA driver API reference); nullptr where missing.
struct Cuda {
  template <class Function>
  static Function find(void* library, const char* name) {
    return reinterpret_cast<Function>(::dlsym(library, name));
  }
  explicit Cuda(void* lib)
      : init(find<int (*)(unsigned)>(lib, "cuInit")),
        device_get(find<int (*)(int*, int)>(lib, "cuDeviceGet")),
        device_count(find<int (*)(int*)>(lib, "cuDeviceGetCount")),
        retain(find<int (*)(void**, int)>(lib, "cuDevicePrimaryCtxRetain")),
        set_current(find<int (*)(void*)>(lib, "cuCtxSetCurrent")),
        load(find<int (*)(void**, const void*)>(lib, "cuModuleLoadData")),
        function(find<int (*)(void**, void*, const char*)>(lib, "cuModuleGetFunction")),
        allocate(find<int (*)(unsigned long long*, std::size_t)>(lib, "cuMemAlloc_v2")),
        to_device(find<int (*)(unsigned long long, const void*, std::size_t)>(lib, "cuMemcpyHtoD_v2")),
        to_host(find<int (*)(void*, unsigned long long, std::size_t)>(lib, "cuMemcpyDtoH_v2")),
        launch(find<int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                            void**)>(lib, "cuLaunchKernel")),
        synchronize(find<int (*)()>(lib, "cuCtxSynchronize")) {}
  bool whole() const {
    return init && device_get && device_count && retain && set_current && load && function && allocate && to_device &&
           to_host && launch && synchronize;
  }
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*device_count)(int*);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*load)(void**, const void*);
  int (*function)(void**, void*, const char*);
  int (*allocate)(unsigned long long*, std::size_t);
  int (*to_device)(unsigned long long, const void*, std::size_t);
  int (*to_host)(void*, unsigned long long, std::size_t);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*synchronize)();
};

/// Runs for about `seconds` on the visible device `ordinal`, holding 512 MiB; nothing where no GPU can be used. The
/// memory is given back when the process ends.
inline std::optional<GpuResult> run_on_gpu(unsigned ordinal, double seconds) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const Cuda cuda(library);
  int count = 0;
  int device = 0;
  void* context = nullptr;
  void* module = nullptr;
  void* kernel = nullptr;
  if (!cuda.whole() || cuda.init(0) != 0 || cuda.device_count(&count) != 0 || count == 0) return std::nullopt;
  if (cuda.device_get(&device, static_cast<int>(ordinal % static_cast<unsigned>(count))) != 0) return std::nullopt;
  if (cuda.retain(&context, device) != 0 || cuda.set_current(context) != 0) return std::nullopt;
  if (cuda.load(&module, kKernel) != 0 || cuda.function(&kernel, module, "axpy") != 0) return std::nullopt;
  unsigned n = 64U << 20U;
  const std::size_t bytes = std::size_t{n} * sizeof(float);
  unsigned long long x = 0;
  unsigned long long y = 0;
  if (cuda.allocate(&x, bytes) != 0 || cuda.allocate(&y, bytes) != 0) return std::nullopt;
  std::vector<float> host(n, 1.0F);
  if (cuda.to_device(x, host.data(), bytes) != 0 || cuda.to_device(y, host.data(), bytes) != 0) return std::nullopt;
  float a = 0.5F;
  void* arguments[] = {&x, &y, &a, &n};
  GpuResult result;
  const auto start = std::chrono::steady_clock::now();
  // Sums of halves are exact in single precision up to 2^23.
  while (result.launches < 1'000'000 &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    if (cuda.launch(kernel, n / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr) != 0 || cuda.synchronize() != 0)
      return std::nullopt;
    ++result.launches;
  }
  if (cuda.to_host(host.data(), y, bytes) != 0) return std::nullopt;
  for (const float value : host)
    result.largest_error = std::fmax(result.largest_error, std::fabs(value - (1.0 + 0.5 * result.launches)));
  return result;
}

}  // namespace example
