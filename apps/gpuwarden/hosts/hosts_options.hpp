// SPDX-License-Identifier: Apache-2.0
// The options of commands that go to other hosts.
#pragma once

#include <array>

#include "command.hpp"

namespace gpuwarden::cli {

inline constexpr const char* kRemoteProgram = "--remote-program";
inline constexpr auto kHostsOptions = std::to_array<Option>({
    {"--hosts", OptionKind::text, "HOST[:GPUS],...", "on these hosts, over OpenSSH (docs/hosts.md)"},
    {"--hostfile", OptionKind::text, "FILE", "on the hosts of a file: HOST, HOST:GPUS or HOST slots=GPUS in each line"},
    {"--ssh", OptionKind::text, "COMMAND", "how they are reached (ssh): --ssh \"ssh -p 2222 -i key\""},
    {kRemoteProgram, OptionKind::text, "PATH", "gpuwarden on the hosts (gpuwarden, found there)"},
});
inline constexpr OptionGroup kHostsGroup{kHostsOptions, "on other hosts"};

/// Fails where one of the options was given, which mean nothing without --hosts; with --slurm --remote-program does.
Result<void> check_without_hosts(const Args& args, std::span<const Option> options = kHostsOptions);

}  // namespace gpuwarden::cli
