// SPDX-License-Identifier: Apache-2.0
// Another process of this machine: what /proc tells of it, and signals that reach it and no other.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden {

/// The figures in /proc/PID/stat: parent, ticks of processor time, start.
struct ProcStat {
  Pid parent;
  std::uint64_t cpu_ticks = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t resident_pages = 0;
};
/// Nothing where the text is not of that form.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/// Sends a signal to a process of this machine; one that started at another time than `start_ticks` is not meant. Fails
/// with not_found where it has ended, permission_denied where it is another user's.
Result<void> send_signal(Pid pid, std::optional<std::uint64_t> start_ticks, int signal);

}  // namespace gpuwarden
