// SPDX-License-Identifier: Apache-2.0
// From which driver a GPU is served: a product often came years behind the first of its generation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/gpu_models.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

struct FirstDrivers {
  /// Ascending: the first release that serves the GPU, and of later branches those before which they do not. A later
  /// branch that is not named is taken to serve it: Windows' numbers (536.40 is of R535) are none of Linux's releases.
  std::vector<Version> releases;
  std::string_view source;  ///< empty: nothing is known of the product, and the branch is its generation's

  /// Empty where nothing is known.
  Version lowest() const { return releases.empty() ? Version{} : releases.front(); }
  /// From which release on drivers of this branch serve the GPU: the branch's own where one is named, else the lowest.
  Version of_branch(int branch) const;
  bool serve(const Version& driver) const;
  bool operator==(const FirstDrivers&) const = default;
};

/// Those of a product by its NVML name ("NVIDIA GeForce RTX 4060 Laptop GPU"), else its generation's branch, which also
/// stands where it is later (a site may say so); 0: not known.
FirstDrivers first_drivers_of(std::string_view gpu_name, int generation_branch);
FirstDrivers first_drivers_of(const GpuModel& model);

/// "535.104.05", "branch 525 (R535: 535.86.05)", "branch 520".
std::string text_of(const FirstDrivers& first);
/// The same for who has a driver of this branch: "535.86.05 of R535"; all of it for a branch that is not named.
std::string text_of(const FirstDrivers& first, int branch);

}  // namespace gpuwarden::knowledge
