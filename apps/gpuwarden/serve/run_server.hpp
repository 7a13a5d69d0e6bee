// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden serve` does: gpuwarden starts gpuwarden-serve, which alone brings an HTTP server and TLS along.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

Result<int> run_server(Context& context);

}  // namespace gpuwarden::cli
