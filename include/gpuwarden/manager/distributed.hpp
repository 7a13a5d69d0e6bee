// SPDX-License-Identifier: Apache-2.0
// What a program's processes need to find each other: taken from their launcher, or made for one process alone.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/manager/config.hpp"
#include "gpuwarden/manager/device.hpp"

namespace gpuwarden::manager {

struct DistributedSetup {
  std::string backend;  ///< "nccl", "gloo"
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  std::string master_address;
  std::uint16_t master_port = 0;
  bool launched = false;  ///< a launcher (gpuwarden run, torchrun) gave the variables
  Device device;          ///< of this rank
  Environment variables;  ///< what has to be set in this process and is not yet
  std::vector<std::string> notes;
};
nlohmann::json to_json(const DistributedSetup& setup);

/// `environment` is the process's; `devices` are the fit GPUs in order, of which the rank gets the one at its
/// LOCAL_RANK. Variables as launch::rank_environment() makes them, but for those of visible devices. nccl becomes gloo
/// where there is no GPU. Fails with invalid_argument where RANK, WORLD_SIZE, LOCAL_RANK or MASTER_PORT is no such
/// number or only some of them are set, with unsatisfied where more ranks than GPUs are on this machine for nccl.
Result<DistributedSetup> set_up_distributed(const GpuConfig& config, const Environment& environment,
                                            const std::vector<Device>& devices);

}  // namespace gpuwarden::manager
