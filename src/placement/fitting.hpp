// SPDX-License-Identifier: Apache-2.0
// How many devices of a machine a request could have now, without choosing among them.
#pragma once

#include <cstdint>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {

struct Fitting {
  std::uint32_t count = 0;  ///< that nothing stands in the way of
  std::uint32_t all = 0;    ///< that the machine has
};
/// Fails as select() does.
Result<Fitting> count_fitting(const Request& request, const Inputs& inputs);

}  // namespace gpuwarden::placement
