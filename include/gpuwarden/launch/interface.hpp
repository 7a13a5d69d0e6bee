// SPDX-License-Identifier: Apache-2.0
// Which network interface of this machine leads where.
#pragma once

#include <optional>
#include <string>

namespace gpuwarden::launch {

/// The name of the interface from which this machine reaches the host, as the kernel's routes have it ("lo" for the
/// machine itself by 127.0.0.1; the one that has the address where it is one of the machine's own). Nothing is sent.
/// Empty where the host has no address or there is no way to it. `for_others`: other machines have to reach this one
/// there, so the loopback is none.
std::optional<std::string> interface_towards(const std::string& host, bool for_others = false);

}  // namespace gpuwarden::launch
