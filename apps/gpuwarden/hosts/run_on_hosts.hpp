// SPDX-License-Identifier: Apache-2.0
// gpuwarden run --hosts
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "command.hpp"
#include "hosts/hosts_options.hpp"

namespace gpuwarden::cli {

/// The options of a job's own; those of kHostsOptions stand before them.
inline constexpr auto kJobOnHostsOptions = std::to_array<Option>({
    {"-G,--gpus", OptionKind::text, "N", "--hosts: so many GPUs in all, on as few of the hosts as have them"},
    {"--chdir", OptionKind::text, "DIR", "--hosts: run the command there (this folder, where a host has it)"},
    {"--env", OptionKind::repeated, "NAME[=VALUE]",
     "--hosts: set this variable for the ranks; NAME alone: as it is here"},
});
inline constexpr auto kRunHostsOptions = [] {
  std::array<Option, kHostsOptions.size() + kJobOnHostsOptions.size()> all{};
  std::ranges::copy(kHostsOptions, all.begin());
  std::ranges::copy(kJobOnHostsOptions, all.begin() + kHostsOptions.size());
  std::ranges::find(all, std::string_view(kRemoteProgram), &Option::names)->help =
      "gpuwarden on the hosts (gpuwarden, found there); with --slurm on the nodes (this program's own path)";
  return all;
}();
inline constexpr OptionGroup kRunHostsGroup{kRunHostsOptions, "on other hosts"};

/// The job on all of the hosts; its exit code.
Result<int> run_on_hosts(Context& context);

}  // namespace gpuwarden::cli
