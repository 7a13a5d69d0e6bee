// SPDX-License-Identifier: Apache-2.0
// A listening socket.
#pragma once

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/serve/access.hpp"

namespace gpuwarden::serve {

/// Binds and listens; `address.port` becomes the one that was given where it was 0. Fails with unavailable where the
/// port is in use, permission_denied, invalid_argument where the machine has no such address.
Result<UniqueFd> bind_and_listen(Address& address);

}  // namespace gpuwarden::serve
