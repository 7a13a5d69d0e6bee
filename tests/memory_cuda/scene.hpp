// SPDX-License-Identifier: Apache-2.0
// A program with a pool on the simulated CUDA driver.
#pragma once

#include "gpuwarden/memory/cuda_upstream.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "sim_cuda/program.hpp"

namespace gpuwarden::memory {

using cuda::Json;
using cuda::Library;

inline CudaOptions cuda_options(std::uint32_t device = 0, int profile = 580) {
  return {.device = CudaOrdinal{device}, .uuid = {}, .library = cuda::library_of(profile)};
}

inline std::unique_ptr<CudaUpstream> open_device(std::uint32_t device = 0) {
  return CudaUpstream::open(cuda_options(device)).value();
}

inline StreamId id_of(cuda::Stream stream) { return {reinterpret_cast<std::uintptr_t>(stream)}; }

/// The device's memory, as the host sees it in this simulation.
inline unsigned char* bytes_at(DeviceAddress address) { return cuda::bytes_at(address.value); }

/// Has one call of a function fail, after `after` that go well.
inline void plan_failure(const Library& cuda, const std::string& function, int code, std::int64_t after = 0,
                         bool sticky = false) {
  const Json reply =
      cuda.call({{"op", "cuda_fail"}, {"function", function}, {"code", code}, {"after", after}, {"sticky", sticky}});
  EXPECT_FALSE(reply.contains("error")) << reply.dump();
}

/// Handles, reservations and events that the driver still has.
inline std::vector<std::uint64_t> leftovers(const Library& cuda) {
  const Json state = cuda.call({{"op", "cuda_state"}});
  return {state["handles"], state["reservations"], state["events"]};
}

}  // namespace gpuwarden::memory
