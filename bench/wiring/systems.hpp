// SPDX-License-Identifier: Apache-2.0
// The machines on which MAPA compares policies, as graphs of links.
#pragma once

#include <string>
#include <vector>

#include "placement/rings.hpp"

namespace gpuwarden::bench {

struct System {
  std::string name;
  placement::LinkGraph links;  ///< GB/s
};

/// What a pair without NVLink has.
inline constexpr double kPcie = 10;

/// dgx-v, dgx-p, summit, torus-2d and cube-mesh-16 (source: socal-ucr/MAPA@15e58ab src/GpuTopology.hh, the bandwidths;
/// arXiv 2110.03214).
std::vector<System> systems();

}  // namespace gpuwarden::bench
