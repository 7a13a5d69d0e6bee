// SPDX-License-Identifier: Apache-2.0
// What a server has to do with the system that runs it: systemd's notifications, and rights that it does not need.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::serve {

/// Tells systemd "READY=1", "STOPPING=1", "WATCHDOG=1" (sd_notify(3)): a datagram to NOTIFY_SOCKET of the environment.
/// Nothing is done where there is none; fails where it cannot be sent.
Result<void> notify(const Environment& environment, std::string_view message);

/// How often "WATCHDOG=1" should be told: half of WATCHDOG_USEC, where that is meant for this process.
std::optional<std::chrono::microseconds> watchdog_interval(const Environment& environment);

/// "RELOADING=1" with the time that systemd wants beside it (Type=notify-reload).
std::string reloading_message();

/// The home of a user; empty where there is no such user.
std::string home_of(const std::string& user);

/// Becomes this user, with his groups and for good; a process that is not root's stays as it is. `user` empty:
/// "gpuwarden" where there is one, else "nobody". Gives the user's name; empty where nothing was done. Fails with
/// not_found for an unknown user, permission_denied where root cannot be given up.
Result<std::string> drop_root(const std::string& user);

}  // namespace gpuwarden::serve
