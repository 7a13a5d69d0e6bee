// SPDX-License-Identifier: Apache-2.0
#include "hosts/hosts_options.hpp"

#include <fmt/format.h>

namespace gpuwarden::cli {

Result<void> check_without_hosts(const Args& args, std::span<const Option> options) {
  for (const Option& option : options) {
    if (option.names == std::string_view(kRemoteProgram) && args.has("slurm")) continue;
    if (args.has(key_of(option)))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} requires --hosts", key_of(option)),
                  "--hosts a,b:4 names the hosts");
  }
  return {};
}

}  // namespace gpuwarden::cli
