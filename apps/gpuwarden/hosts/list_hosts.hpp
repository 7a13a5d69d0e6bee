// SPDX-License-Identifier: Apache-2.0
// gpuwarden list --hosts
#pragma once

#include "command.hpp"
#include "hosts/hosts_options.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// One table of all hosts' GPUs, or JSON; the exit code: that of a failed reading where a host does not answer.
Result<int> list_hosts(const Context& context, const Style& style);

}  // namespace gpuwarden::cli
