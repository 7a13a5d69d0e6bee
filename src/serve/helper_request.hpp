// SPDX-License-Identifier: Apache-2.0
// What the server's helper is asked, judged on the helper's side.
#pragma once

#include <array>
#include <csignal>
#include <string>
#include <string_view>

#include "gpuwarden/serve/helper.hpp"

namespace gpuwarden::serve {

struct SignalName {
  std::string_view name;
  int number;
};
/// What callers may send to processes on GPUs.
inline constexpr auto kSignals = std::to_array<SignalName>({{"TERM", SIGTERM},
                                                            {"INT", SIGINT},
                                                            {"KILL", SIGKILL},
                                                            {"HUP", SIGHUP},
                                                            {"USR1", SIGUSR1},
                                                            {"USR2", SIGUSR2},
                                                            {"STOP", SIGSTOP},
                                                            {"CONT", SIGCONT}});

/// A packet is never longer.
inline constexpr std::size_t kLongestPacket = 4096;

/// Does what a packet asks for, if the rights are there; `connection` came with it, or is -1.
Result<std::string> obey(std::string_view packet, int connection, const HelperRights& rights);

/// An answer as a packet, and back.
std::string answer_packet(const Result<std::string>& answer);
Result<std::string> parse_answer(std::string_view packet);

/// Sends the signal as `user`: the kernel judges whether he may. Fails with permission_denied, not_found.
Result<void> signal_as(std::uint32_t user, Pid pid, int signal);

}  // namespace gpuwarden::serve
