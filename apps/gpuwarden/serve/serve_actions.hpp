// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden serve` may do, by itself or through the helper that keeps root's rights.
#pragma once

#include <memory>

#include "gpuwarden/serve/helper.hpp"
#include "gpuwarden/serve/routes.hpp"
#include "machine.hpp"
#include "serve/serve_settings.hpp"

namespace gpuwarden::cli {

/// nullptr where no right is to be kept. Fails with permission_denied for a right that this process does not have.
/// `machine` must outlive it.
Result<std::unique_ptr<serve::Helper>> start_helper(const Machine& machine, const KeptRights& rights);

/// `helper` may be nullptr: what it would do is then done with the server's own rights, or not at all.
serve::Actions actions_of(const Machine& machine, const KeptRights& rights, serve::Helper* helper);

}  // namespace gpuwarden::cli
