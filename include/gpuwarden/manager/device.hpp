// SPDX-License-Identifier: Apache-2.0
// Where work is done: a GPU of this machine, or the CPU.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::manager {

/// A place for work; without `gpu` it is the CPU.
struct Device {
  std::optional<GpuIndex> gpu;
  Uuid uuid;
  std::string name = "CPU";
  /// The number by which CUDA knows it in this process; empty where its order is not known.
  std::optional<CudaOrdinal> ordinal;

  bool is_cpu() const { return !gpu; }
  bool operator==(const Device&) const = default;
};

/// "cuda:1", as CUDA programs name it; "cpu" for the CPU and where the ordinal is not known.
std::string device_name(const Device& device);
/// "GPU 3", "the CPU": for sentences.
std::string spoken_name(const Device& device);
nlohmann::json to_json(const Device& device);

}  // namespace gpuwarden::manager
