// SPDX-License-Identifier: Apache-2.0
// Every sensible combination of what decides over an emitted file.
#pragma once

#include <vector>

#include "gpuwarden/planning/emit.hpp"

namespace gpuwarden::planning {

/// Strategies x GPUs x precisions x offloading x recomputation x tasks x two ages of GPU; optimizer, micro-batch,
/// accumulation and the rest take turns. All pass check().
inline std::vector<Launch> launch_matrix() {
  std::vector<Launch> all;
  const auto add = [&](Launch launch) {
    Settings& s = launch.settings;
    const auto turn = static_cast<std::uint32_t>(all.size());
    s.optimizer = static_cast<Optimizer>(turn % 6);
    s.step = static_cast<OptimizerStep>(turn % 3);
    s.micro_batch = 1 + turn % 7;
    s.accumulation = 1 + turn % 5;
    s.sequence = 512U << turn % 4;
    s.attention = static_cast<Attention>(turn % 2);
    s.loss = static_cast<LossKernel>(turn % 5);
    launch.cpus_per_gpu = turn % 3 * 6;
    launch.host_memory_per_node = Bytes(std::uint64_t{turn % 4} << 34U);
    if (turn % 5 == 0) launch.time = std::chrono::hours(1 + turn % 50);
    if (s.task == Task::adapters && turn % 2 == 0) s.quantization = Quantization::nf4;
    if (check(s)) all.push_back(std::move(launch));
  };
  const auto spread = [&](Launch launch) {
    for (const auto precision : {Precision::fp32, Precision::bf16, Precision::fp16, Precision::mixed,
                                 Precision::mixed_low, Precision::master_weights})
      for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full, Recompute::full_offloaded})
        for (const bool ampere : {true, false}) {
          launch.settings.precision = precision;
          launch.settings.recompute = recompute;
          launch.ampere = ampere;
          add(launch);
        }
  };
  for (const auto sharding :
       {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3, Sharding::fsdp1, Sharding::fsdp2})
    for (const std::uint32_t gpus : {1U, 2U, 8U, 16U, 64U})
      for (const auto offload : {Offload::none, Offload::optimizer, Offload::all})
        for (const auto task : {Task::full_training, Task::adapters}) {
          Launch launch;
          launch.settings.parallel = {.data = gpus, .sharding = sharding, .offload = offload};
          launch.settings.task = task;
          spread(launch);
        }
  return all;
}

}  // namespace gpuwarden::planning
