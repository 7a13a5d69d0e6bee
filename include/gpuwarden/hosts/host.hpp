// SPDX-License-Identifier: Apache-2.0
// Hosts as people name them: on a command line, in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::hosts {

struct Host {
  std::string name;                   ///< as ssh takes it: "b", "ada@b", "10.0.0.7", an alias of its configuration
  std::optional<std::uint32_t> gpus;  ///< how many of its GPUs; empty: as many as of any other
  bool operator==(const Host&) const = default;
};

/// "a", "b:4", "ada@b", "[fe80::7]:4" each. Fails with invalid_argument for what is none (what begins with '-' would be
/// an option of ssh) and for a host that is listed twice.
Result<std::vector<Host>> parse_hosts(std::span<const std::string> words);

/// A line each: HOST, HOST:N, or HOST slots=N as mpirun and DeepSpeed have it; what follows a # is a comment. Fails
/// with invalid_argument, "NAME:LINE: what".
Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view name);

/// Variables for the ranks: NAME=VALUE, or NAME alone with the value that it has in `own`. Fails with invalid_argument
/// where there is no name, or it is not set.
Result<Environment> parse_variables(const std::vector<std::string>& words, const Environment& own);

}  // namespace gpuwarden::hosts
