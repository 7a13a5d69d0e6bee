// SPDX-License-Identifier: Apache-2.0
// Which of many machines, and which of their GPUs, is not as its peers are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/doctor/compare.hpp"

namespace gpuwarden::doctor {

/// One thing in which a machine stands apart.
struct Outlier {
  std::string machine;
  std::string what;   ///< "driver", "GPU 3 temperature"
  std::string value;  ///< its own
  std::string usual;  ///< what most have, or the middle of its peers
  bool operator==(const Outlier&) const = default;
};

/// Facts in which a machine differs from what most machines have (three machines at least), and readings in which a GPU
/// is far from the median of its peers: GPUs of its model on all machines, at work as it is or idle as it is, four at
/// least. Hotter by 15 C or more; at work, a clock lower by a tenth, or a PCIe link of an earlier generation. Pure. The
/// margins are our own: GPUs in one room differ by less for reasons of air and place.
std::vector<Outlier> outliers(const std::vector<NamedMachine>& machines);

nlohmann::json to_json(const std::vector<Outlier>& outliers);

}  // namespace gpuwarden::doctor
