// SPDX-License-Identifier: Apache-2.0
// What may be asked for, and what may be said of it: the rest of a webhook's URL is a secret.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::net {

/// Fails with invalid_argument for what is no http or https URL of printable characters.
Result<void> check_url(std::string_view url);
/// "example.org:8443" of a URL that was checked: no user, password or path.
std::string host_of(std::string_view url);
/// Whether the host is this machine: localhost, 127.x, [::1].
bool is_loopback(std::string_view url);

}  // namespace gpuwarden::net
