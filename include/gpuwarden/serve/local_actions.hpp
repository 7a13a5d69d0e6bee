// SPDX-License-Identifier: Apache-2.0
// What a server does to its own machine: by itself, or through the helper that keeps root's rights.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/serve/helper.hpp"
#include "gpuwarden/serve/routes.hpp"

namespace gpuwarden::serve {

/// Rights of root's that a helper keeps where root is given up.
struct KeptRights {
  bool power = false;    ///< to set power limits
  bool signals = false;  ///< to signal processes of the user who asks
  bool disable = false;  ///< to disable and enable for everybody
  bool any() const { return power || signals || disable; }
};
/// Of their names: "power", "signal", "disable". Fails with invalid_argument for another.
Result<KeptRights> kept_rights_from(std::span<const std::string> names);

/// The helper that keeps these; nullptr where no right is to be kept. Before any thread is started and before root is
/// given up. Fails with permission_denied for rights that this process does not have (a simulated fleet is its
/// maker's), and as Helper::start(). `machine` must outlive it.
Result<std::unique_ptr<Helper>> start_helper(const machine::Machine& machine, const KeptRights& rights);

/// `helper` is start_helper()'s of the same rights; what it has no right to is done with the server's own, or, of power
/// limits, not at all. `machine` and `helper` must outlive it.
Actions actions_of(const machine::Machine& machine, const KeptRights& rights, Helper* helper);

}  // namespace gpuwarden::serve
