// SPDX-License-Identifier: Apache-2.0
// How another host is reached: OpenSSH's command line, and what its failures mean. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/hosts/host.hpp"

namespace gpuwarden::hosts {

struct SshOptions {
  /// The program with the user's own options, as a shell reads it: "ssh -p 2222". They come first, so that they hold:
  /// of an option that is given twice ssh takes the first (ssh_config(5)).
  std::string ssh = "ssh";
  std::string program = "gpuwarden";  ///< gpuwarden on the host; "~/..." is below the user's folder there
  std::chrono::seconds connect_timeout{10};
};

/// The command that starts an agent on the host. Nothing of a job stands in it: that goes through the agent's standard
/// input, where no shell reads it.
Command ssh_command(const Host& host, const SshOptions& options);

/// How such a command ended before the agent answered.
struct SshEnd {
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string said;  ///< its standard error, with that of the host's shell
};
/// What it means: ssh was refused (in its words), or there is no gpuwarden, or it failed.
Error explain(const Host& host, const SshEnd& end, const SshOptions& options);

/// The same where the agent had answered before.
Error explain_loss(const Host& host, const SshEnd& end);

/// The version in a line of `gpuwarden --version`; empty where it is another line (of a shell's start files).
std::string_view version_in(std::string_view line);

/// Why an agent of that version is not worked with; nothing where it is. `theirs` empty: it told none.
std::optional<Error> version_problem(const Host& host, std::string_view theirs, std::string_view ours);

}  // namespace gpuwarden::hosts
