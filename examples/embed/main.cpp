// SPDX-License-Identifier: Apache-2.0
// Lists the GPUs of this machine, asks for the best one, and says what is in the way where there is none.
#include <cstdio>

#include "gpuwarden/manager/gpu_manager.hpp"

int main() {
  gpuwarden::manager::GpuManager manager({});
  for (const auto& record : manager.available_gpus()) {
    std::printf("GPU %u: %s\n", record.gpu.index.value, record.gpu.name.c_str());
  }
  const auto best = manager.optimal_device();
  if (!best) {
    std::printf("no GPU: %s\n", best.error().message.c_str());
    return 0;
  }
  std::printf("the best one now: %s\n", best->uuid.value.c_str());
  return 0;
}
