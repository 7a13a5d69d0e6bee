// SPDX-License-Identifier: Apache-2.0
// Which drivers the GPUs of a machine, the purpose and the rules of the site ask for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/driver/driver.hpp"
#include "gpuwarden/knowledge/first_drivers.hpp"

namespace gpuwarden::driver {

/// What all GPUs of the machine together ask for.
struct Needs {
  int lowest = 0;
  int highest = 0;
  std::string lowest_name;
  std::string lowest_words;  ///< from which driver that GPU is served
  std::string highest_name;
  std::string only_open;         ///< a GPU that the proprietary module does not serve
  std::string only_proprietary;  ///< a GPU that the open module does not serve
  std::vector<std::string> unknown;
  /// Of each kind of GPU: its name, and from which driver it is served.
  std::vector<std::pair<std::string, knowledge::FirstDrivers>> first;
  bool seen = false;
};

Needs needs_of(const DriverFacts& facts, const knowledge::Knowledge& knowledge);
/// Raises the lowest branch for the purpose. Fails with unsatisfied for a CUDA version of which nothing is known.
Result<void> heed_purpose(const DriverFacts& facts, const DriverRequest& request, const knowledge::Knowledge& knowledge,
                          Recommendation& answer);
/// A rule of the site about a GPU and the purpose raises the lowest to what it wants: required, or recommended.
void heed_site(const DriverFacts& facts, const DriverRequest& request, const knowledge::Knowledge& knowledge,
               Recommendation& answer);

}  // namespace gpuwarden::driver
